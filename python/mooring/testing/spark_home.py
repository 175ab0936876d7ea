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

CLASS_ARCHIVE_VARIABLE: Final = "MOORING_CLASS_ARCHIVE"
"""Names a file with the classes of Spark as a JVM keeps them in memory (`java -XX:ArchiveClassesAtExit`). A JVM that
maps it starts with a quarter less CPU time. The file fits one build of the JDK and one directory of Spark; where it
does not fit, the JVM reads the jars as usual."""


def _short_lived_spark() -> str:
    archive = os.environ.get(CLASS_ARCHIVE_VARIABLE)
    if archive is None or not Path(archive).is_file():
        return SHORT_LIVED_JVM
    return f"{SHORT_LIVED_JVM} -XX:SharedArchiveFile={archive} -Xlog:cds*=off"


SHORT_LIVED_SPARK: Final = _short_lived_spark()
"""The same for a driver, an executor, a master or a worker of Spark, with the archive of classes if there is one."""


def spark_home() -> Path:
    """The directory of the installed PySpark package, which has a complete Spark."""
    import pyspark  # here, so that tests without Spark do not need it

    return Path(pyspark.__file__).parent


def spark_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """The environment of this process without SPARK_* and PYSPARK_*, plus `ours`, with one Python for all.

    Masters, workers and the launcher of `spark-submit` get options of a short-lived JVM; drivers and executors do not.
    Without PYSPARK_PYTHON, Spark's helpers would start the system's `python3`. SPARK_CONF_DIR names a directory that
    does not exist: no settings of the user's are read, and the class path has no directory (with one, a JVM does not
    use an archive of classes).
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OTHER_SPARKS)}
    always = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(spark_home() / "no-settings"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": SHORT_LIVED_JVM,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_SPARK,
    }
    return {**inherited, **always, **ours}
