"""Where Spark is, and the environment its processes are given: nothing of the user's own Spark leaks in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_OTHER_SPARKS = ("SPARK_", "PYSPARK_")

SHORT_LIVED_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a JVM that lives for a minute or two: the optimising compiler and several collector threads cost more CPU
time than they save there."""


def spark_home() -> Path:
    """The directory of the installed PySpark package, which is a whole Spark."""
    import pyspark  # here, so that tests without Spark need not have it

    return Path(pyspark.__file__).parent


def spark_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process without SPARK_* and PYSPARK_*, plus `ours`, with one Python everywhere.

    Masters, workers and the launcher of `spark-submit` get the options of a JVM that lives shortly. Drivers and
    executors get none.

    Without PYSPARK_PYTHON Spark's helpers start whatever `python3` the system has.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHER_SPARKS)}
    always = {
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": SHORT_LIVED_JVM,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JVM,
    }
    return {**inherited, **always, **ours}
