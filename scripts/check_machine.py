"""List everything that this machine lacks for Mooring, with what to do about it. Exit 0 when nothing is missing.

`make` runs it with the Python of the later virtual environment. So it must also run on a Python that is too old.
"""

import importlib.util
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "scala-shim"))

from jdk import java_problem

OLDEST_PYTHON = (3, 10)


def python_problem(version=sys.version_info):
    """The problem with a Python of this version; an empty text when there is none."""
    if tuple(version[:2]) >= OLDEST_PYTHON:
        return ""
    found = ".".join(str(part) for part in version[:3])
    return f"Python 3.10 or newer is needed; {sys.executable} is {found}. Name another one: make PYTHON=python3.11 …"


def platform_problem(platform=sys.platform):
    """The problem with a platform: the demo and the tests need Linux's loopback addresses for their hosts."""
    return "" if platform.startswith("linux") else f"Linux is needed for demo and tests; this is {platform}"


def venv_problem(find=importlib.util.find_spec):
    """The problem with virtual environments: Debian's python3 package lacks the modules that make one."""
    if find("venv") and find("ensurepip"):
        return ""
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    return f"{sys.executable} cannot make virtual environments. Debian, Ubuntu: apt-get install {package}"


def problems():
    """Everything that is missing, one or two sentences each."""
    return [problem for problem in (platform_problem(), python_problem(), venv_problem(), java_problem()) if problem]


if __name__ == "__main__":
    missing = problems()
    for problem in missing:
        sys.stderr.write(f"missing: {problem}\n")
    sys.exit(1 if missing else 0)
