"""The catalogue of a checkpoint, read back from its Delta table."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mooring.catalogue.rows import TABLE, is_path
from mooring.checkpoint.lease import DIRECTORY
from mooring.checkpoint.spark_start import first_line
from mooring.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS_OF_A_BATCH: Final = (
    "max(committed_ms) AS committed_ms",
    "max(watermark_ms) AS watermark_ms",
    "max(to_json(offsets)) AS offsets",
    "IF(count(keys) = count(*), sum(keys), NULL) AS keys",
    "IF(count(bytes) = count(*), sum(bytes), NULL) AS bytes",
    "max(deployment) AS deployment",
)

_BYTES_IF_KNOWN: Final = "IF(bytes = 0 AND keys > 0, NULL, bytes)"
"""The size of a store. Rows of older releases say 0 where a store has keys and no SST files yet."""


@dataclass(frozen=True, slots=True)
class CataloguedBatch:
    """One batch in the catalogue, summed over all stores; None where a store has no value.

    `bytes` is the size of the SST files. `offsets` has one text for each source.
    """

    batch: int
    committed_ms: int
    watermark_ms: int
    offsets: tuple[str | None, ...] | None
    keys: int | None
    bytes: int | None
    deployment: str


def own_table(checkpoint: Path) -> str | None:
    """The path of the table in the checkpoint itself; None where the checkpoint has none."""
    table = checkpoint / DIRECTORY / TABLE
    return str(table) if (table / "_delta_log").is_dir() else None


def batches_listed(
    spark: SparkSession, table: str, query: str, valid_ids: Mapping[int, Collection[str]]
) -> list[CataloguedBatch]:
    """The batches of a query in a catalogue, oldest first. CheckpointError when it can not be read.

    `valid_ids` has the unique ids of batches, as the commit log names them; `_commits` says what they decide.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        commits = _commits(spark, table, query, valid_ids)
        columns = (f.expr(column) for column in _COLUMNS_OF_A_BATCH)
        found = commits.groupBy("batch").agg(*columns).orderBy("batch").collect()
    except PySparkException as fault:
        raise CheckpointError(f"the catalogue {table} can not be read: {first_line(fault)}") from fault
    return [_catalogued_batch(row) for row in found]


def newest_bytes(
    spark: SparkSession, table: str, query: str, valid_ids: Mapping[int, Collection[str]], newest: int | None
) -> dict[int, int]:
    """Partition to the bytes of its state over all stores, after the newest batch that has a size for every store.

    `valid_ids` as in `batches_listed`. Batches after `newest` do not count: a restore has undone them, or they came
    after the log was read. Where `newest` is None, all count. CheckpointError when the catalogue can not be read.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    try:
        commits = _commits(spark, table, query, valid_ids)
        if newest is not None:
            commits = commits.where(f.col("batch") <= newest)
        of_batches = commits.groupBy("partition", "batch")
        sums = of_batches.agg(f.sum("bytes").alias("bytes"), f.count("bytes").alias("known"), f.count("*").alias("all"))
        whole = sums.where("known = all").groupBy("partition").agg(f.max_by("bytes", "batch").alias("bytes"))
        return {row.partition: row.bytes for row in whole.collect()}
    except PySparkException as fault:
        raise CheckpointError(f"the catalogue {table} can not be read: {first_line(fault)}") from fault


def _commits(spark: SparkSession, table: str, query: str, valid_ids: Mapping[int, Collection[str]]) -> DataFrame:
    """The rows of committed versions, each once.

    Rows of a batch in `valid_ids` with other ids are of an attempt that was undone, and are left out. All rows of other
    batches are there.
    """
    from pyspark.sql import functions as f

    rows = spark.read.format("delta").load(table) if is_path(table) else spark.read.table(table)
    of_query = rows.where((f.col("kind") == "commit") & (f.col("query") == query))
    of_query = of_query.withColumn("bytes", f.expr(_BYTES_IF_KNOWN))
    once = of_query.dropDuplicates(["batch", "operator", "partition", "id"])  # two agents may have written the same row
    valid = spark.createDataFrame(
        [(batch, sorted(ids)) for batch, ids in valid_ids.items()], "batch BIGINT, valid_ids ARRAY<STRING>"
    )
    return once.join(f.broadcast(valid), "batch", "left").where("valid_ids IS NULL OR array_contains(valid_ids, id)")


def _catalogued_batch(row: Any) -> CataloguedBatch:
    offsets = None if row.offsets is None else tuple(json.loads(row.offsets))
    return CataloguedBatch(
        row.batch,
        row.committed_ms,
        row.watermark_ms or 0,
        offsets,
        row["keys"],
        row["bytes"],
        row.deployment,
    )
