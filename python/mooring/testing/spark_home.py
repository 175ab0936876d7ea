"""Where Spark is, and the environment its processes are given: nothing of the user's own Spark leaks in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark

_OTHER_SPARKS = ("SPARK_", "PYSPARK_")


def spark_home() -> Path:
    """The directory of the installed PySpark package, which is a whole Spark."""
    return Path(pyspark.__file__).parent


def spark_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process without SPARK_* and PYSPARK_*, plus `ours`, with one Python everywhere.

    Without PYSPARK_PYTHON Spark's helpers start whatever `python3` the system has.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHER_SPARKS)}
    always = {
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return {**inherited, **always, **ours}
