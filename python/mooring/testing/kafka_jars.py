"""The jars of a Kafka broker, fetched once with Spark's own resolver."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.testing.maven_jars import maven_jars
from mooring.testing.spark_home import spark_home

KAFKA_VERSION = "4.2.0"

_BROKER = "org.apache.kafka:kafka_2.13:{version}"

# Spark's resolver leaves out jars that Spark has: Scala, and the backend of slf4j. Spark's slf4j must come first.
_FROM_SPARK = (
    "slf4j-api-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "log4j-api-2*.jar",
    "log4j-core-*.jar",
    "scala-library-*.jar",
)


def kafka_classpath(version: str = KAFKA_VERSION, cache: Path | None = None, timeout: float = 600.0) -> str:
    """The class path of a broker of this version, for `java -cp`.

    The first call fetches 40 MB into `cache` (see `maven_jars`). `ClusterError` when the jars can not be fetched.
    """
    jars = maven_jars(f"kafka-{version}", [_BROKER.format(version=version)], cache, timeout)
    from_spark = [jar for pattern in _FROM_SPARK for jar in sorted((spark_home() / "jars").glob(pattern))]
    return os.pathsep.join([*map(str, from_spark), f"{jars}/*"])
