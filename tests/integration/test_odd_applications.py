"""Applications as in notebooks: several sessions, no checkpoint location, state whose schema grows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from mooring.testing.probes import wait_until
from tests.integration.support.application_in_one_jvm import application, events_in_files
from tests.integration.support.file_fed_job import status_in
from tests.integration.support.queries_with_pending_output import EVENTS, KINDS
from tests.integration.support.query_in_one_jvm import HalfJob, Job, same
from tests.integration.support.restarted_job import FORMAT_KEY, PROVIDER_KEY, STOCK_HDFS, STOCK_ROCKSDB

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]

WINDOWS = KINDS["windows"]
AVRO = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}


def conf_in(checkpoint: Path) -> dict[str, str]:
    """What the newest entry of the offset log has of the session's settings."""
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda entry: int(entry.name))
    found: dict[str, str] = json.loads(newest.read_text().splitlines()[1])["conf"]
    return found


def test_sessions_of_one_application_each_have_their_own_settings(tmp_path: Path) -> None:
    with application("sessions", tmp_path) as spark:
        confs = {
            "first": {},
            "five": {"spark.sql.shuffle.partitions": "5"},
            "format1": {FORMAT_KEY: "1", "spark.sql.shuffle.partitions": "3"},
            "hdfs": {PROVIDER_KEY: STOCK_HDFS, FORMAT_KEY: "1"},
        }
        jobs: dict[str, Job] = {}
        for name, conf in confs.items():
            session = spark if name == "first" else spark.newSession()
            for key, value in conf.items():
                session.conf.set(key, value)
            (tmp_path / name).mkdir()
            events = events_in_files(session, tmp_path / name / "events", 6).withWatermark("time", "10 seconds")
            jobs[name] = Job(session, tmp_path / name, WINDOWS.frame(events))
        for job in jobs.values():
            job.start()
        for job in jobs.values():
            job.read_all()

        def tasks() -> Counter[str]:
            found = status_in(spark.conf.get("spark.mooring.metadata")).get("tasks", [])
            return Counter(task["name"].partition("/")[0] for task in found)

        wait_until(lambda: sorted(tasks().values()) == [2, 2, 3, 5], "a plan for each query by its own partitions", 60)
        for job in jobs.values():
            job.drain() if job is not jobs["hdfs"] else job.stop()
        for name in ("first", "five", "format1"):
            same(jobs[name], jobs[name].rows(), WINDOWS)
        jobs["hdfs"].start()
        jobs["hdfs"].drain()
        same(jobs["hdfs"], jobs["hdfs"].rows(), WINDOWS)

        seen = {name: conf_in(job.checkpoint) for name, job in jobs.items()}
        assert [seen[name]["spark.sql.shuffle.partitions"] for name in confs] == ["2", "5", "3", "2"]
        assert [seen[name][PROVIDER_KEY] for name in confs] == [STOCK_ROCKSDB] * 3 + [STOCK_HDFS]
        has_unique_names = {name: bool(list((job.checkpoint / "state").rglob("*_*.zip"))) for name, job in jobs.items()}
        assert [name for name in confs if has_unique_names[name]] == ["first", "five"], "those of format 2"


def test_queries_without_a_checkpoint_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark makes a directory for each run, and removes it at the end; nothing of ours is left beside it."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    java = {"spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={temporary}"}
    with application("no checkpoint", tmp_path, java, has_own_jvm=True) as spark:
        made = Path(spark._jvm.java.lang.System.getProperty("java.io.tmpdir"))
        events = events_in_files(spark, tmp_path / "events", 6).withWatermark("time", "10 seconds")
        before = set(made.iterdir())
        for number in range(3):
            query = (
                WINDOWS.frame(events).writeStream.outputMode("complete").format("memory").queryName(f"counts{number}")
            ).start()
            query.processAllAvailable()
            rows = spark.table(f"counts{number}").collect()
            assert Counter(map(tuple, rows)) == Counter(WINDOWS.answer())
            query.stop()
        wait_until(
            lambda: (
                not [path for path in set(made.iterdir()) - before if path.name.startswith(("temporary-", "_mooring"))]
            ),
            "nothing to be left of the runs",
            20,
        )


class Sums(StatefulProcessor):
    """How many events a key has had; a later release keeps the last one's time as well."""

    schema = "events LONG"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.value = handle.getValueState("sums", self.schema)

    def handleInputRows(self, key, rows, timerValues) -> Iterator[Row]:  # type: ignore[no-untyped-def]
        batch = list(rows)
        before = self.value.get()[0] if self.value.exists() else 0
        self.value.update(self.of(before + len(batch), batch))
        yield Row(key=key[0], events=before + len(batch))

    def of(self, events: int, batch: list[Row]) -> tuple[int, ...]:
        return (events,)

    def close(self) -> None:
        pass


class SumsAndTimes(Sums):
    schema = "events LONG, last LONG"

    def of(self, events: int, batch: list[Row]) -> tuple[int, ...]:
        return (events, max(row.ms for row in batch))


def sums(processor: type[Sums], events: DataFrame) -> DataFrame:
    rows = events.select("key", f.unix_millis("time").alias("ms")).groupBy("key")
    return rows.transformWithState(
        statefulProcessor=processor(), outputStructType="key LONG, events LONG", outputMode="update", timeMode="none"
    )


def test_a_schema_of_state_in_avro_grows(tmp_path: Path) -> None:
    with application("grows", tmp_path, AVRO) as spark:
        (tmp_path / "events").mkdir()
        job = Growing(spark, tmp_path / "job")
        job.restart_with(SumsAndTimes)
        job.read_all(len(EVENTS) - len(EVENTS) // 2)
        job.stop()
        last: dict[int, int] = {}
        for batch in sorted(int(path.name.partition("=")[2]) for path in job.out.glob("batch=*")):
            last.update({row.key: row.events for row in spark.read.parquet(str(job.out / f"batch={batch}")).collect()})
        assert last == dict(Counter(key for key, _ in EVENTS))


class Growing(HalfJob):
    def __init__(self, spark: SparkSession, directory: Path) -> None:
        directory.mkdir()
        from tests.integration.support.queries_with_pending_output import Kind

        super().__init__(spark, directory, Kind(lambda events: sums(Sums, events), lambda: []))

    def start(self, checkpoint: Path | None = None, out: Path | None = None):  # type: ignore[no-untyped-def]
        writer = self.frame.writeStream.outputMode("update")
        writer = writer.foreachBatch(lambda rows, batch: self.write(rows, batch, out or self.out))
        self.query = writer.option("checkpointLocation", str(checkpoint or self.checkpoint)).start()
        return self.query

    def restart_with(self, processor: type[Sums]) -> None:
        self.bring_the_rest()
        events = self.spark.readStream.schema("key LONG, time TIMESTAMP").option("maxFilesPerTrigger", 1)
        self.frame = sums(processor, events.json(str(self._events)).withWatermark("time", "10 seconds"))
        self.start()
