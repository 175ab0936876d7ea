"""The directory of Spark, and an environment for its processes that has nothing of the user's own Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_OTHER_SPARKS = ("SPARK_", "PYSPARK_")

SHORT_LIVED_JVM: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a JVM that lives for a minute or two. There the optimising compiler and several collector threads cost
more CPU time than they save."""


def spark_home() -> Path:
    """The directory of the installed PySpark package, which has a complete Spark."""
    import pyspark  # here, so that tests without Spark do not need it

    return Path(pyspark.__file__).parent


def spark_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process without SPARK_* and PYSPARK_*, plus `ours`, with one Python for all.

    Masters, workers and the launcher of `spark-submit` get the options in `SHORT_LIVED_JVM`; drivers and executors do
    not. Without PYSPARK_PYTHON, Spark's helpers would start the system's `python3`.
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
