"""The Sparks of the lines, as far as they were fetched to this machine."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mooring.errors import MooringError
from mooring.jar import jar_path
from tests.integration.support.restarted_job import FetchedSpark
from tests.unit.build.shim import lines

LINES = [line.name for line in lines.LINES]
UPGRADES = [*pairwise(LINES), (LINES[-1], LINES[-1])]
"""Each line with the next one, and the newest with itself."""


def spark_of(name: str) -> FetchedSpark:
    """The Spark against which the line's jar is compiled. Skips the test where Spark or jar are missing."""
    line = next(line for line in lines.LINES if line.name == name)
    own = lines.own_jars()
    if own is not None and lines.line_of(lines.spark_version(own)) == line:
        spark = FetchedSpark(lines.spark_version(own), own.parents[1])
    else:
        spark = FetchedSpark(line.spark, lines.kept_folder(line.spark))
    try:
        jar_path(spark.version)
    except MooringError:
        pytest.skip(f"no jar for Spark {name} is built: make lines")
    if not spark.home.is_dir():
        pytest.skip(f"Spark {spark.version} was not fetched: make lines")
    return spark
