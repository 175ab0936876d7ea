"""The jars of Hadoop's YARN daemons, fetched once with Spark's own resolver."""

from __future__ import annotations

from pathlib import Path

from mooring.testing.maven_jars import maven_jars

HADOOP_VERSION = "3.5.0"

_DAEMONS = (
    "hadoop-common",
    "hadoop-yarn-client",
    "hadoop-yarn-server-resourcemanager",
    "hadoop-yarn-server-nodemanager",
    "hadoop-yarn-server-timelineservice",
)
_LOGGING = "org.slf4j:slf4j-reload4j:1.7.36"


def hadoop_classpath(version: str = HADOOP_VERSION, cache: Path | None = None, timeout: float = 600.0) -> str:
    """The class path of YARN's daemons of this version, for `java -cp`; the daemon's configuration comes before it.

    The first call fetches 90 MB into `cache` (see `maven_jars`). `ClusterError` when the jars can not be fetched.
    """
    packages = [*(f"org.apache.hadoop:{daemon}:{version}" for daemon in _DAEMONS), _LOGGING]
    return f"{maven_jars(f'hadoop-{version}', packages, cache, timeout)}/*"
