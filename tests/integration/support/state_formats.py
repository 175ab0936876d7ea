"""Checkpoints of both formats of state, the right counts, and Spark's own tools for them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tests.integration.support.restarted_job import FORMAT_KEY

ROWS = 20  # of each batch
KEYS = 7
BEFORE, AFTER = 2, 5  # partitions
LONGEST_RUN = 120  # seconds
CHANGELOGS = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
FORMATS = ("1", "2")


class Checkpoints:
    """A checkpoint of each format with two committed batches, and copies of these."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark, self._directory = spark, directory
        for format in FORMATS:
            session = self.session(format)
            for _ in range(2):
                run(session, directory / format)

    def session(self, chosen: str | None) -> SparkSession:
        """A second session of the application, with this format of checkpoints; None for the default."""
        session = self.spark.newSession()
        if chosen is not None:
            session.conf.set(FORMAT_KEY, chosen)
        return session

    def copy(self, format: str) -> Path:
        return Path(shutil.copytree(self._directory / format, self._directory / f"{format}-{uuid4().hex}"))


def rows_of(session: SparkSession) -> DataFrame:
    """A stream of the numbers from 0; each run reads one more batch."""
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 1)
    return source.option("startTimestamp", 0).load()


def run(session: SparkSession, checkpoint: Path) -> Counter[int]:
    """Run one more batch, and return the counts after it."""
    name = f"counts_{uuid4().hex}"
    counted = rows_of(session).groupBy((col("value") % KEYS).alias("key")).count()
    writer = counted.writeStream.format("memory").queryName(name).outputMode("complete")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(LONGEST_RUN), query.status
    finally:
        query.stop()
    return Counter({row["key"]: row["count"] for row in session.table(name).collect()})


def answer(batches: int) -> Counter[int]:
    """The right counts after this number of batches."""
    return Counter(number % KEYS for number in range(batches * ROWS))


def read_state(session: SparkSession, checkpoint: Path, **options: int | bool) -> DataFrame:
    return session.read.format("statestore").options(**options).load(str(checkpoint))


def counts(state: DataFrame) -> Counter[int]:
    return Counter({row["key"][0]: row["value"]["count"] for row in state.collect()})


def repartition(session: SparkSession, checkpoint: Path, enforce_exactly_once_sink: bool = True) -> None:
    session._streamingCheckpointManager.repartition(str(checkpoint), AFTER, enforce_exactly_once_sink)


def formats_of_commits(checkpoint: Path) -> list[str]:
    commits = checkpoint / "commits"
    batches = sorted(int(path.name) for path in commits.glob("[0-9]*"))
    return [(commits / str(batch)).read_text().splitlines()[0] for batch in batches]


def forget_commit(checkpoint: Path, batch: int) -> None:
    """Remove the commit of a batch, as if the driver had died at its end."""
    for name in (str(batch), f".{batch}.crc"):
        (checkpoint / "commits" / name).unlink()


def with_sink(checkpoint: Path, batch: int) -> None:
    """Rewrite a commit as a session with exchangeable sinks writes it."""
    entry = checkpoint / "commits" / str(batch)
    commit = json.loads(entry.read_text().partition("\n")[2])
    sink = {"sinkName": "s", "commitOffset": "-", "providerName": "memory", "apiVersion": "DSv2", "isActive": True}
    forget_commit(checkpoint, batch)
    entry.write_text("v3\n" + json.dumps({**commit, "sinkMetadataMap": {"s": sink}}))


def begin_repartition(checkpoint: Path, batch: int, base: int) -> None:
    """Write the entry of the offset log that Spark's repartition writes before it rewrites the state."""
    offsets = checkpoint / "offsets"
    key = '"spark.sql.shuffle.partitions":'
    entry = (offsets / str(base)).read_text()
    assert f'{key}"{BEFORE}"' in entry
    (offsets / str(batch)).write_text(entry.replace(f'{key}"{BEFORE}"', f'{key}"{AFTER}"'))
