"""An operator moves and restarts processors of a job that runs: no state is fetched again, and the answer is right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from mooring.client import MooringClient
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, ContainerPlacementResponseMessage, StatusCode
from mooring.testing.cluster import SparkCluster
from mooring.testing.submission import Submission
from tests.integration.load import Load
from tests.integration.warm import CHANGELOG, warm

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


class Operator:
    """Asks a job, and feeds it until it has answered."""

    def __init__(self, cluster: SparkCluster, load: Load, job: Submission) -> None:
        self.cluster, self.load, self.job = cluster, load, job
        self.client = MooringClient.open(load.metadata)

    def places(self, processor: str, destination: str, expiry_ms: int | None = None) -> UUID:
        return self.client.place_container(processor, destination, self.load.status()["application"], expiry_ms)

    def answer(self, uuid: UUID, feeds: bool = True) -> ContainerPlacementResponseMessage:
        """The last word on a request; meanwhile some batches run."""
        last = None
        for turn in range(16):
            if feeds and turn < 4:
                self.load.feed(self.job)
            last = self.client.wait(uuid, 4, lambda news: None)
            assert last is not None
            if last.status_code.is_final:
                break
        assert last is not None and last.status_code.is_final, (last, self.load.status().get("requests"))
        return last

    def succeeds(self, uuid: UUID) -> None:
        answer = self.answer(uuid)
        assert answer.status_code is StatusCode.SUCCEEDED, answer.response_message

    def processor_at(self, host: str) -> str:
        """The one with the most tasks there."""
        found = [one for one in self.load.status()["processors"] if one["location"] == host]
        return str(max(found, key=lambda one: len(one["tasks"]))["id"])

    def location_of(self, processor: str) -> str:
        return str(next(one["location"] for one in self.load.status()["processors"] if one["id"] == processor))

    def executor_of(self, processor: str) -> str:
        return str(next(one["executor"] for one in self.load.status()["processors"] if one["id"] == processor))

    def tasks_of(self, processor: str) -> list[str]:
        return list(next(one["tasks"] for one in self.load.status()["processors"] if one["id"] == processor))

    def ran_at(self, processor: str) -> set[str]:
        """Where the processor's tasks ran last."""
        tasks = self.load.status()["tasks"]
        return {one["location"] for one in tasks if one["processor"] == processor and one["mode"] == "Active"}

    def standby_threads(self) -> set[str]:
        """The names, as far as Linux keeps them, of the driver's and the executors' threads that standbys need."""
        driver, executors = (
            threads_of_group(self.job.process.pid),
            threads_of(*(e.pid for e in self.cluster.executors())),
        )
        assert "mooring-agent-watch"[:15] in driver and any(name.startswith("mooring-") for name in executors), driver
        return {
            name
            for name in driver | executors
            if name.startswith(("mooring-standby", "mooring-liven", "mooring-stuck"))
        }

    def waits_for(self, processor: str, host: str) -> None:
        """The status shows what was answered a moment later."""
        self.job.wait_until(lambda: self.location_of(processor) == host, f"processor {processor} at {host}", 30)
        self.job.wait_until(lambda: self.ran_at(processor) == {host}, f"tasks of {processor} at {host}", 30)


def threads_of(*pids: int) -> set[str]:
    return {name_of(task) for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/comm")}


def name_of(thread: Path) -> str:
    """Empty for one that has just ended."""
    try:
        return thread.read_text().strip()
    except OSError:
        return ""


def threads_of_group(leader: int) -> set[str]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return threads_of(*(pid for pid in pids if group_of(pid) == leader))


def group_of(pid: int) -> int | None:
    """None for a process that has just ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@contextmanager
def operated(directory: Path, changelog: str, files: int = 18) -> Iterator[Operator]:
    """A job on three hosts, each task kept once."""
    load = Load(directory, files=files)
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=directory / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster, {CHANGELOG: changelog, "spark.mooring.processor.rebind.timeout": "60s"})
        job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 120)
        load.feed(job)
        operator = Operator(cluster, load, job)
        yield operator
        operator.client.close()
        load.offer_the_rest_and_finish(job)
    load.assert_right()


@pytest.mark.parametrize("changelog", ["false", pytest.param("true", marks=pytest.mark.heavy)])
def test_a_processor_goes_to_another_host_and_fetches_nothing_when_it_is_there(tmp_path: Path, changelog: str) -> None:
    with operated(tmp_path, changelog) as here:
        assert not here.standby_threads() and "standby of counts" not in here.job.log, "factor 1 costs nothing"
        processor = here.processor_at(HOSTS[1])
        fetched, tasks = here.load.counter("restore-bytes-remote"), here.tasks_of(processor)
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        moves = here.places(processor, HOSTS[2])
        here.job.wait_until(lambda: here.location_of(processor) == HOSTS[2], "the switch, between two batches", 60)
        here.succeeds(moves)
        here.waits_for(processor, HOSTS[2])
        assert here.load.counter("restore-bytes-remote") == fetched, "what it needs was there before it came"
        assert here.standby_threads() and "standby of counts" in here.job.log
        assert here.tasks_of(processor) == tasks and here.load.counter("moves") == len(tasks), "and no other moved"

        before = here.executor_of(processor)
        here.succeeds(here.places(processor, LAST_SEEN))
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 30)
        here.waits_for(processor, HOSTS[2])


@pytest.mark.heavy
def test_what_has_no_executor_to_go_to_stays_where_it_is(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here:
        processor = here.processor_at(HOSTS[1])
        answer = here.answer(here.places(processor, "10.9.8.7", expiry_ms=3_000))
        assert answer.status_code is StatusCode.FAILED and "10.9.8.7" in answer.response_message
        assert here.ran_at(processor) == {HOSTS[1]}
        assert here.answer(here.places("77", HOSTS[0])).status_code is StatusCode.BAD_REQUEST


@pytest.mark.heavy
def test_a_destination_that_dies_sends_the_processor_back(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here:
        processor = here.processor_at(HOSTS[1])
        uuid = here.places(processor, HOSTS[2])
        here.job.wait_until(lambda: here.location_of(processor) == HOSTS[2], "the switch", 60)
        here.cluster.kill_host(HOSTS[2])
        assert here.answer(uuid).status_code is StatusCode.FAILED
        here.waits_for(processor, HOSTS[1])
        here.cluster.revive_host(HOSTS[2])
        here.succeeds(here.places(processor, ANY_HOST))


@pytest.mark.heavy
def test_standby_takes_over_where_copies_are(tmp_path: Path) -> None:
    with warm(tmp_path, files=18) as there:
        here = Operator(there.cluster, there.load, there.job)
        processor = here.processor_at(HOSTS[1])
        refused = here.answer(here.places(processor, HOSTS[2]), feeds=False)
        assert refused.status_code is StatusCode.BAD_REQUEST and "STANDBY" in refused.response_message
        here.succeeds(here.places(processor, STANDBY))
        there.job.wait_until(lambda: here.location_of(processor) != HOSTS[1], "the status to show it", 30)
        there.wait_until_caught_up()
        here.client.close()


@pytest.mark.heavy
def test_a_host_is_drained_stays_empty_and_refills(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=30) as here:
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        fetched = here.load.counter("restore-bytes-remote")
        drains = here.client.drain_host(HOSTS[1], here.load.status()["application"])
        here.job.wait_until(lambda: here.load.sizes() == [0, 4, 4], "the switches, between two batches", 120)
        here.succeeds(drains)
        assert here.tasks_of(here.processor_at(HOSTS[1])) == []
        assert here.load.counter("restore-bytes-remote") == fetched, "what they need was there before it came"
        for _ in range(3):
            here.load.feed(here.job)
        assert here.load.sizes() == [0, 4, 4]
        assert here.load.status()["drained-hosts"] == [{"location": HOSTS[1], "state": "drained"}]
        here.succeeds(here.client.open_host(HOSTS[1], here.load.status()["application"]))
        here.load.feed(here.job)
        here.job.wait_until(lambda: here.load.sizes() == [2, 3, 3], "the host to refill", 120)
        here.succeeds(here.client.drain_host(HOSTS[2], here.load.status()["application"]))  # while batches run
        here.job.wait_until(lambda: here.load.sizes() == [0, 4, 4], "the others to have all tasks", 30)
        assert here.tasks_of(here.processor_at(HOSTS[2])) == []
