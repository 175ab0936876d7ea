"""The catalogue of a checkpoint, read back from its Delta table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mooring.checkpoint.catalogue import TABLE
from mooring.checkpoint.lease import DIRECTORY
from mooring.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_A_BATCH: Final = (
    "max(committed_ms) AS committed_ms",
    "max(watermark_ms) AS watermark_ms",
    "max(to_json(offsets)) AS offsets",
    "IF(count(keys) = count(*), sum(keys), NULL) AS keys",
    "IF(count(bytes) = count(*), sum(bytes), NULL) AS bytes",
    "max(deployment) AS deployment",
)


@dataclass(frozen=True, slots=True)
class Listed:
    """What the catalogue says of one batch: its state over all stores, None for what was not told.

    `bytes` is what the files of RocksDB weighed; `offsets` has one text for each source.
    """

    batch: int
    committed_ms: int
    watermark_ms: int
    offsets: tuple[str | None, ...] | None
    keys: int | None
    bytes: int | None
    deployment: str


def is_catalogued(checkpoint: Path) -> bool:
    """Whether the checkpoint has a catalogue."""
    return (_table(checkpoint) / "_delta_log").is_dir()


def batches_listed(spark: SparkSession, checkpoint: Path, query: str) -> list[Listed]:
    """The batches in the catalogue, oldest first. CheckpointError when it can not be read."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        commits = spark.read.format("delta").load(str(_table(checkpoint))).where(f.col("kind") == "commit")
        of_query = commits.where(f.col("query") == query)
        once = of_query.dropDuplicates(["batch", "operator", "partition", "id"])  # two agents may have told of one
        found = once.groupBy("batch").agg(*(f.expr(one) for one in _OF_A_BATCH)).orderBy("batch").collect()
    except PySparkException as fault:
        raise CheckpointError(f"the catalogue {_table(checkpoint)} can not be read: {fault}") from fault
    return [_listed(row) for row in found]


def _listed(row: Any) -> Listed:
    offsets = None if row.offsets is None else tuple(json.loads(row.offsets))
    return Listed(
        row.batch, row.committed_ms, row.watermark_ms or 0, offsets, row["keys"], row["bytes"], row.deployment
    )


def _table(checkpoint: Path) -> Path:
    return checkpoint / DIRECTORY / TABLE
