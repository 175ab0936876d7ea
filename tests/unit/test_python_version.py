"""A Python that is too old says so in one line, before it meets anything that it can not read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mooring

OLD = shutil.which("python3.9")
IS_THERE = OLD is not None and subprocess.run([OLD, "-c", ""], capture_output=True).returncode == 0


def test_an_old_python_is_told_which_one_is_needed() -> None:
    pretend = "import sys; sys.version_info = (3, 9, 18); import mooring"
    environment = os.environ | {"PYTHONPATH": str(Path(mooring.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", pretend], capture_output=True, text=True, env=environment)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: Mooring needs Python 3.10 or later, and ") and sys.executable in last


@pytest.mark.skipif(not IS_THERE, reason="there is no Python 3.9 here")
def test_a_real_python_3_9_is_told_the_same() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(mooring.__file__).parents[1])}
    done = subprocess.run([str(OLD), "-m", "mooring.agent"], capture_output=True, text=True, env=environment)
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: Mooring needs Python 3.10 or later, and ") and "3.9" in last, done.stderr
