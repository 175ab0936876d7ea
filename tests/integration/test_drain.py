"""Queries that are drained: what they hold comes out, all of it, and no state is left."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mooring.cli.main import main
from mooring.client import MooringClient
from mooring.drain import DrainNotification, read_drain_notifications, write_drain_notification
from mooring.jar import jar_path
from mooring.metadata import open_metadata_store
from mooring.placement import ANY_HOST
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import utc
from mooring.testing.kafka import KafkaBroker
from tests.integration.support import answers
from tests.integration.support.job_outputs import counted, read_delta, read_sink
from tests.integration.support.job_runs import (
    FILES,
    JOB_CONF,
    JOBS,
    SCALA_JOB,
    Job,
    compile_scala,
)
from tests.integration.support.job_to_drain import KILLED_AT, WITHOUT_AN_END, DrainableJob, OpenInput
from tests.integration.support.spark_packages import delta, kafka_source
from tests.seeds import seeded

CHAINED = Job("chained_until_drained", answers.chained_until_drained)


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"executor_memory": "768m", "conf": JOB_CONF}


@pytest.mark.heavy
@pytest.mark.parametrize("job", [CHAINED, *WITHOUT_AN_END], ids=lambda job: job.name)
def test_a_drained_job_has_let_out_everything(
    job: Job, spark_hosts: SparkCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_metadata_store(str(tmp_path / "metadata")) as store:
        of_another = write_drain_notification(store, DrainNotification.create("another application"))
        started = DrainableJob(job, spark_hosts, tmp_path)
        started.events.offer(FILES - 4)  # one file a batch: most of it lies there when the drain begins
        exit_code = started.command("drain", "--wait", "--timeout", "180s")
        started.submission.finish(120)
        said = capsys.readouterr().out
        assert exit_code == 0, said
        assert started.command("drain", "--wait") == 0, "it is done"
        said = capsys.readouterr().out
        assert "nothing is left to do" in said and "ENDED at" in said and "drained at batch" in said
        assert of_another in read_drain_notifications(store).notifications
    ordinary = [line for line in started.submission.log.splitlines() if "Mooring: drain" in line]
    assert ordinary and not [line for line in ordinary if " WARN " in line]
    started.assert_drained()


@pytest.mark.heavy
def test_a_drained_scala_job_has_let_out_everything(spark_hosts: SparkCluster, tmp_path: Path) -> None:
    """A typed state function with an event-time timeout."""
    jar = compile_scala(JOBS / "scala" / f"{SCALA_JOB.name}.scala", tmp_path / "job.jar")
    started = DrainableJob(SCALA_JOB, spark_hosts, tmp_path, jar=jar)
    started.events.offer(FILES - 4)
    assert started.command("drain", "--wait", "--timeout", "180s") == 0
    started.submission.finish(120)
    started.assert_drained()


@pytest.mark.heavy
@pytest.mark.parametrize("asked", ["notification", "drain.on.start", "checkpoint"])
def test_who_is_asked_before_the_start_reads_nothing_more(
    asked: str, spark_hosts: SparkCluster, tmp_path: Path
) -> None:
    """Of two queries the second reads what the first lets out, though no more comes in."""
    started = DrainableJob(CHAINED, spark_hosts, tmp_path)
    assert started.command("stop", "--mode", "after-batch", "--wait", "--timeout", "120s") == 0
    started.submission.finish(60)
    consumed = started.files_read("counts")
    started.events.offer(FILES - 4)
    if asked == "checkpoint":
        for query in started.queries:
            assert main(["drain", "--checkpoint", str(tmp_path / "checkpoints" / query)]) == 0
    conf = {"spark.mooring.drain.on.start": "true"} if asked == "drain.on.start" else {}
    started.submit(*(["asked-before"] if asked == "notification" else []), **conf).finish(180)
    assert started.files_read("counts") == consumed < FILES
    started.events = OpenInput(tmp_path / "events that were read")
    started.events.offer(consumed)
    started.assert_drained()


WINDOWS = Job("windowed_aggregation", answers.windowed_aggregation)


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["after-batch", "after-available", "now"])
def test_a_query_that_is_stopped_goes_on_at_its_next_start(
    mode: str, spark_hosts: SparkCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = DrainableJob(WINDOWS, spark_hosts, tmp_path)
    started.events.offer(3)
    assert started.command("stop", "--mode", mode, "--wait", "--timeout", "120s", "--json") == 0
    started.submission.finish(60)
    (report,) = json.loads(capsys.readouterr().out)["drains"]
    assert report["phase"] == "stopped" and report["state-rows-left"] > 0
    log = started.submission.log
    assert "Mooring: stop of query" in log and "Mooring: drain of query" not in log
    if mode == "after-available":
        assert started.committed() >= 7, "each file is a batch"
    assert report["batch"] + 1 == started.committed() if mode != "now" else report["batch"] < started.committed()
    started.events.offer(FILES - 7)
    again = started.submit()
    again.wait_until(lambda: started.committed() >= FILES, "a batch of each file", 180)
    assert started.command("drain", "--wait", "--timeout", "120s") == 0
    again.finish(60)
    started.assert_drained()


@pytest.mark.heavy
@pytest.mark.parametrize("resume", ["reset", "true"])
def test_a_drained_checkpoint_goes_on_as_it_is_told(resume: str, spark_hosts: SparkCluster, tmp_path: Path) -> None:
    """With a fresh watermark windows work again; as it is, what comes is late."""
    started = DrainableJob(WINDOWS, spark_hosts, tmp_path)
    assert started.command("drain", "--wait", "--timeout", "120s") == 0
    started.submission.finish(60)
    first = answers.drained(answers.windowed_aggregation)(started.events.directory)["counts"]
    read, batches = started.files_read("counts"), started.committed()
    later = OpenInput(tmp_path / "later events", first=read)
    for events in (started.events, later):
        events.offer(FILES - read)
    again = started.submit(**{"spark.mooring.resume.drained": resume})
    again.wait_until(lambda: started.committed() >= batches + FILES - read, "a batch of each file", 180)
    assert started.command("drain", "--wait", "--timeout", "120s") == 0
    again.finish(60)
    rest = answers.drained(answers.windowed_aggregation)(later.directory)["counts"] if resume == "reset" else []
    assert counted(read_sink(tmp_path / "outputs" / "counts")) == counted([*first, *rest])


@pytest.mark.heavy
def test_with_standbys_and_while_a_processor_moves_all_comes_out_as_well(
    spark_hosts: SparkCluster, tmp_path: Path
) -> None:
    started = DrainableJob(WINDOWS, spark_hosts, tmp_path, **{"spark.mooring.standby.replication.factor": "2"})
    started.events.offer(FILES - 4)
    with MooringClient.open(str(tmp_path / "metadata")) as client:
        uuid = client.place_container("0", ANY_HOST, started.submission.application)
        assert started.command("drain", "--wait", "--timeout", "180s") == 0
        started.submission.finish(120)
        print(client.container_status(uuid))
    assert "standby of counts" in started.submission.log
    started.assert_drained()


@pytest.mark.heavy
def test_sigterm_drains_first(spark_hosts: SparkCluster, tmp_path: Path) -> None:
    started = DrainableJob(CHAINED, spark_hosts, tmp_path, **{"spark.mooring.drain.on.sigterm": "true"})
    os.kill(started.submission.process.pid, signal.SIGTERM)
    started.submission.wait(180)
    started.assert_drained()


THREE = Job("three_until_drained", answers.three_until_drained, read=read_delta)
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@pytest.mark.heavy
def test_queries_that_feed_each_other_by_delta_tables_are_drained_in_order(
    spark_hosts: SparkCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = DrainableJob(THREE, spark_hosts, tmp_path, until="counts", **DELTA, **{"spark.jars.packages": delta()})
    started.events.offer(FILES - 4)
    assert started.command("drain", "--wait", "--timeout", "600s") == 0, capsys.readouterr().out
    started.submission.finish(120)
    started.assert_drained()


@pytest.mark.heavy
@pytest.mark.parametrize("number", range(12))
def test_a_drain_goes_on_after_its_driver_was_killed(number: int, spark_hosts: SparkCluster, tmp_path: Path) -> None:
    """Twelve drawn moments, three after each stage: what comes out is the same, each row once."""
    chance = seeded(number)
    phase, pause = KILLED_AT[number % len(KILLED_AT)], chance.uniform(0, 1.5)
    started = DrainableJob(CHAINED, spark_hosts, tmp_path)
    started.events.offer(FILES - 4)
    assert started.command("drain") == 0
    started.submission.wait_until(lambda: started.is_at(phase), f"the drain to be at {phase}", 120)
    time.sleep(pause)
    started.submission.process.kill()
    left = {query: started.marker(query) for query in started.queries}
    print(f"killed {pause:.2f} s after {phase}: {left}")
    again = started.submit()
    if again.process.wait(240) != 0:  # which it refuses when all was drained before
        assert "spark.mooring.resume.drained" in again.log, again.process.story()
        assert all(marker == "drained" for marker in left.values()), again.process.story()
    started.assert_drained()


START, STEP_MS, KEYS, PARTS = 1_767_607_200_000, 2, 50, 4


@pytest.mark.heavy
def test_of_a_topic_that_is_written_to_all_the_while_everything_before_the_mark_comes_out_and_nothing_else(
    spark_hosts: SparkCluster, tmp_path: Path
) -> None:
    """Five thousand records a second, before the drain, during it, and after it."""
    conf = {
        "spark.plugins": "io.mooring.MooringPlugin",
        "spark.jars": str(jar_path()),
        "spark.jars.packages": kafka_source(),
        "spark.mooring.metadata": str(tmp_path / "metadata"),
    }
    checkpoint = tmp_path / "checkpoints" / "counts"
    with KafkaBroker(tmp_path / "kafka", {"num.partitions": str(PARTS)}) as broker, Writing(broker) as written:
        arguments = [f"{broker.servers}/bids", tmp_path / "checkpoints", tmp_path / "outputs", "goes-on"]
        job = spark_hosts.submit(JOBS / "kafka_until_drained.py", arguments, conf=conf)
        job.wait_until(lambda: len(list((checkpoint / "commits").glob("[0-9]*"))) >= 5, "five batches", 180)
        assert main(["drain", "--metadata", str(tmp_path / "metadata"), "--wait", "--timeout", "120s"]) == 0
        job.finish(60)
        after = written.count
        job_ended_with = json.loads((checkpoint / "_mooring" / "drained.json").read_text())
        offsets = {int(part): end for part, end in mark_of(job_ended_with)["bids"].items()}
        consumed = [record for part, end in offsets.items() for record in written.of(part, end)]
    assert 0 < len(consumed) < after, "it was written to meanwhile"
    print(f"{len(consumed)} records consumed of {after} that were written when the drain was over: {offsets}")
    counts = Counter((ms - ms % 10_000, key) for key, ms in consumed)
    answer = [{"start": utc(start), "key": key, "count": count} for (start, key), count in counts.items()]
    assert counted(read_sink(tmp_path / "outputs" / "counts")) == counted(answer)
    assert job_ended_with["state-rows-left"] == 0


def mark_of(marker: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The offsets of the only source."""
    (offset,) = marker["offsets"]
    found: dict[str, dict[str, int]] = json.loads(offset) if isinstance(offset, str) else offset
    return found


class Writing:
    """Writes records to the topic `bids`, until the end of the block; key and time of each follow from its number."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.count = 0
        self._producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 20})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writing", daemon=True)

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_over.set()
        self._thread.join()

    def of(self, part: int, end: int) -> list[tuple[int, int]]:
        """Key and time of the records of a partition before that offset."""
        return [self._record(number * PARTS + part) for number in range(end)]

    def _record(self, number: int) -> tuple[int, int]:
        return number * 7919 % KEYS, START + number * STEP_MS

    def _write(self) -> None:
        began = time.monotonic()
        while not self._is_over.wait(0.05):
            due = int((time.monotonic() - began) * 5000)
            for number in range(self.count, due):
                key, ms = self._record(number)
                self._producer.produce("bids", json.dumps({"key": key, "ms": ms}), partition=number % PARTS)
            self._producer.flush(10)
            self.count = max(self.count, due)
