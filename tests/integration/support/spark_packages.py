"""Packages for `spark.jars.packages`, by the line of the Spark that runs. A line without one skips the test."""

from __future__ import annotations

import pytest

from mooring.checkpoint.state_table import delta_package
from mooring.errors import CheckpointError
from mooring.installed_spark import installed_spark, line_of

_KAFKA_SOURCES = {"4.0": "4.0.4", "4.1": "4.1.3", "4.2": "4.2.0"}
"""A published version for each line. Spark's newest patch may not be on a mirror of Maven Central yet."""


def line_of_this_spark() -> str | None:
    """The line of the Spark that runs, such as `4.2`."""
    spark = installed_spark({})
    return line_of(spark.version) if spark else None


def delta() -> str:
    """Delta's package."""
    try:
        return delta_package()
    except CheckpointError as fault:
        pytest.skip(str(fault))


def kafka_source() -> str:
    """The package of Spark's source for Kafka."""
    line = line_of_this_spark()
    if line not in _KAFKA_SOURCES:
        pytest.skip(f"no package of the Kafka source is known for Spark {line}")
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_KAFKA_SOURCES[line]}"
