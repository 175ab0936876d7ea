"""What pyproject.toml cannot say: a wheel carries the jar, as mooring/jars/mooring.jar."""

import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


class BuildPyWithJar(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            jar = Path(self.build_lib).absolute() / "mooring/jars/mooring.jar"
            if subprocess.call([sys.executable, str(HERE / "scala-shim/build_jar.py"), "--output", str(jar)]):
                raise SystemExit("mooring.jar could not be built; the reason stands above")


setup(cmdclass={"build_py": BuildPyWithJar})
