"""The Sparks of the lines that there are on this machine."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tests.integration.support.restarted_job import FetchedSpark
from tests.unit.build.shim import lines


def sparks() -> dict[str, FetchedSpark]:
    """By line, the oldest first: the Spark against which the line's jar is compiled, where it was fetched."""
    found = {line.name: _spark_of(line) for line in lines.LINES}
    return {name: spark for name, spark in found.items() if spark is not None}


def upgrades() -> list[tuple[str, str]]:
    """Each line with the next one, and the newest with itself."""
    names = list(sparks())
    return [*pairwise(names), *((newest, newest) for newest in names[-1:])]


def _spark_of(line: Any) -> FetchedSpark | None:
    own = lines.own_jars()
    if own is not None and lines.line_of(lines.spark_version(own)) == line:
        return FetchedSpark(lines.spark_version(own), own.parents[1])
    folder = lines.kept_folder(line.spark)
    return FetchedSpark(line.spark, folder) if folder.is_dir() else None
