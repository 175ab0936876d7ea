"""Each line of Spark has what Mooring reaches in it by reflection. Skips lines that `make lines` has not fetched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.versions.sparks import LINES, spark_of

CHECKOUT = Path(__file__).parents[2]
CHECK = "tests/integration/test_spark_lacks_an_access.py::test_this_spark_has_every_member_that_is_reached"

pytestmark = pytest.mark.one_jvm


@pytest.mark.parametrize("line", LINES)
def test_the_spark_of_a_line_has_every_member_that_is_reached(line: str) -> None:
    environment = {**os.environ, **spark_of(line).environment}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", CHECK]
    ran = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-5000:]
    assert "1 passed" in ran.stdout
