"""What pyproject.toml cannot say: a wheel carries the jars of all lines of Spark, in mooring/jars.

`MOORING_LINES` names fewer lines, such as `4.2` or `4.1 4.2`: a build for one's own cluster fetches less.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent


class BuildPyWithJars(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            return  # an editable install takes the jars from build/ (`make jar`)
        jars = Path(self.build_lib).absolute() / "mooring/jars"
        shutil.rmtree(jars, ignore_errors=True)  # an earlier build may have left jars of other lines
        for line in os.environ.get("MOORING_LINES", "all").split():
            command = [
                sys.executable,
                str(HERE / "scala-shim/build_jar.py"),
                "--spark",
                line,
                "--output-dir",
                str(jars),
            ]
            if subprocess.call(command):
                raise SystemExit(f"the jar for Spark {line} could not be built; the reason stands above")


setup(cmdclass={"build_py": BuildPyWithJars})
