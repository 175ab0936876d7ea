"""From two hosts to three and back, under load: only what evenness asks for moves, and the answer stays right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mooring.agent.memory import STATUS
from mooring.jar import jar_path
from mooring.metadata import open_metadata_store
from mooring.testing.cluster import SparkCluster
from mooring.testing.events import START_MS, AuctionHouse, write_events
from tests.integration import answers
from tests.integration.outputs import counted, read_sink

JOB = Path(__file__).parent / "jobs" / "until_told.py"
PARTITIONS = 8


def test_two_hosts_three_hosts_two_hosts(tmp_path: Path) -> None:
    events, metadata = tmp_path / "events", tmp_path / "metadata"
    files = list(AuctionHouse(seed=3).bid_files())
    conf = {
        "spark.plugins": "io.mooring.MooringPlugin",
        "spark.jars": str(jar_path()),
        "spark.mooring.metadata": str(metadata),
        "spark.mooring.processor.rebind.timeout": "3s",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
    }
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        cluster.kill_host("127.0.0.4")
        for number, rows in enumerate(files[:2]):
            write_events(rows, events / "bids", number, modified=START_MS / 1000 + number)
        job = cluster.submit(JOB, [events, tmp_path / "checkpoints", tmp_path / "outputs"], conf=conf)

        def sizes() -> list[int]:
            return sorted(len(processor["tasks"]) for processor in _status(metadata).get("processors", []))

        def feed(number: int) -> None:
            committed = _status(metadata)["counters"]["batches"]
            write_events(files[number], events / "bids", number, modified=START_MS / 1000 + number)
            job.wait_until(lambda: _status(metadata)["counters"]["batches"] > committed, "a batch", 120)

        job.wait_until(lambda: sizes() == [4, 4], "an even plan on two hosts", 120)
        job.wait_until(lambda: _status(metadata)["counters"]["batches"] >= 2, "two batches", 120)
        assert _status(metadata)["counters"]["moves"] == 0

        cluster.revive_host("127.0.0.4")
        job.wait_until(lambda: sizes() == [2, 3, 3], "an even plan on three hosts", 120)
        assert _status(metadata)["counters"]["moves"] == 2, "the third host takes two tasks, and no other task moves"
        feed(2)
        feed(3)

        cluster.kill_host("127.0.0.4")
        job.wait_until(lambda: sizes() == [4, 4], "an even plan on two hosts again", 120)
        assert _status(metadata)["counters"]["moves"] == 4, "its two tasks go back, and no other task moves"
        for number in range(4, len(files)):
            write_events(files[number], events / "bids", number, modified=START_MS / 1000 + number)
        (events / "STOP").touch()
        job.finish(180)
        counters = _status(metadata)["counters"]
        assert counters["placed-as-planned"] <= counters["preferred-host-requests"]

    expected = answers.windowed_aggregation(events)["counts"]
    assert counted(read_sink(tmp_path / "outputs" / "counts")) == counted(expected)


def _status(metadata: Path) -> dict[str, Any]:
    with open_metadata_store(str(metadata)) as store:
        record = store.get(STATUS)
    return json.loads(record) if record else {}
