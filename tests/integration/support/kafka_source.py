"""Spark's source for Kafka, by the line of the Spark that runs."""

from __future__ import annotations

import pytest

from mooring.installed_spark import installed_spark

_PUBLISHED = {"4.0": "4.0.4", "4.1": "4.1.3", "4.2": "4.2.0"}
"""A version of each line whose package every mirror of Maven Central has had time to take."""


def kafka_source() -> str:
    """The package for `spark.jars.packages`. Skips the test on a line without one."""
    spark = installed_spark({})
    version = spark.version if spark else "none"
    line = ".".join(version.split(".")[:2])
    if line not in _PUBLISHED:
        pytest.skip(f"no package of Spark's Kafka source is known for Spark {version}")
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_PUBLISHED[line]}"
