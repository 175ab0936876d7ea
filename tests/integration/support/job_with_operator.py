"""An operator of a running job: it makes requests, writes input for the job, and reads the job's status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from mooring.client import MooringClient
from mooring.placement import ContainerPlacementResponseMessage, StatusCode
from mooring.testing.cluster import SparkCluster
from mooring.testing.submission import Submission
from tests.integration.support.file_fed_job import Load, first_plan_for
from tests.integration.support.job_with_warm_copies import CHANGELOG, JobWithCopies, warm

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


class Operator:
    """Makes requests to a job, and writes input for the job until a request is final."""

    def __init__(self, cluster: SparkCluster, load: Load, job: Submission) -> None:
        self.cluster, self.load, self.job = cluster, load, job
        self.client = MooringClient.open(load.metadata)

    def close(self) -> None:
        self.client.close()

    def places(self, processor: str, destination: str, expiry_ms: int | None = None) -> UUID:
        return self.client.place_container(processor, destination, self.load.status()["application"], expiry_ms)

    def commands(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `mooring` with these arguments, and return its output."""
        command = [sys.executable, "-m", "mooring.cli.main", *words, "--metadata", self.load.metadata]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def answer(self, uuid: UUID, feeds: bool = True) -> ContainerPlacementResponseMessage:
        """The final response to a request. Meanwhile some batches run, unless `feeds` is False."""
        last = None
        for turn in range(16):
            if feeds and turn < 4:
                self.load.feed(self.job)
            last = self.client.wait(uuid, 4, lambda status: None)
            assert last is not None
            if last.status_code.is_final:
                break
        assert last is not None and last.status_code.is_final, (last, self.load.status().get("requests"))
        return last

    def succeeds(self, uuid: UUID) -> None:
        answer = self.answer(uuid)
        assert answer.status_code is StatusCode.SUCCEEDED, answer.response_message

    def processor_at(self, host: str) -> str:
        """The processor at a host; the one with the most tasks if there are several."""
        found = [processor for processor in self.load.status()["processors"] if processor["location"] == host]
        return str(max(found, key=lambda processor: len(processor["tasks"]))["id"])

    def _of_processor(self, processor: str, key: str) -> Any:
        """A value of a processor in the status."""
        return next(found[key] for found in self.load.status()["processors"] if found["id"] == processor)

    def location_of(self, processor: str) -> str:
        return str(self._of_processor(processor, "location"))

    def is_switched(self, processor: str, host: str) -> bool:
        """Whether the processor is at a host by a plan in force. Before that, batches run at the old place."""
        return self.location_of(processor) == host and self.load.is_in_force()

    def executor_of(self, processor: str) -> str:
        return str(self._of_processor(processor, "executor"))

    def tasks_of(self, processor: str) -> list[str]:
        return list(self._of_processor(processor, "tasks"))

    def ran_at(self, processor: str) -> set[str]:
        """The locations where the processor's tasks ran last."""
        tasks = self.load.status()["tasks"]
        return {task["location"] for task in tasks if task["processor"] == processor and task["mode"] == "Active"}

    def copied_at(self, processor: str) -> set[str]:
        """The locations of the copies of the processor's tasks."""
        copies = [task for task in self.load.status()["tasks"] if task["mode"] == "Standby"]
        own = self.tasks_of(processor)
        return {copy["location"] for copy in copies if any(f"-{task}-" in copy["name"] for task in own)}

    def begins(self, uuid: UUID, phase: str) -> None:
        """Wait until the status shows that a request is in this phase."""

        def has_begun() -> bool:
            shown = {request["uuid"]: request["message"] for request in self.load.status().get("requests", [])}
            return shown.get(str(uuid), "").startswith(phase)

        self.job.wait_until(has_begun, f"request {uuid} to be {phase}", 60)

    def begins_what_is_held_up(self, id: str) -> UUID:
        """Request a move to the third host, which is paused, so that the move stays in its warm-up until it resumes."""
        self.job.wait_until(self.load.is_idle, "the batches to be over", 60)
        self.cluster.pause_host(HOSTS[2])
        uuid = self.places(id, HOSTS[2])
        self.begins(uuid, "warming up")
        return uuid

    def kills_the_executor_of(self, processor: str) -> None:
        executor = self.executor_of(processor)
        next(one for one in self.cluster.executors() if one.id == executor).kill()

    def kills_the_agent(self) -> None:
        """Kill the agent with SIGKILL; the driver starts another one."""
        agent = self.job.helper("mooring.agent")
        assert agent is not None
        os.kill(agent.pid, signal.SIGKILL)

    def fails(self, uuid: UUID, words: str, feeds: bool = True) -> None:
        answer = self.answer(uuid, feeds)
        assert answer.status_code is StatusCode.FAILED and words in answer.response_message, answer

    def standby_threads(self) -> set[str]:
        """The threads for standbys in the driver and the executors; Linux keeps 15 letters of a name."""
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
        """Wait until the status shows a processor and its tasks at a host: it comes a moment after the response."""
        self.job.wait_until(lambda: self.location_of(processor) == host, f"processor {processor} at {host}", 30)
        self.job.wait_until(lambda: self.ran_at(processor) == {host}, f"tasks of {processor} at {host}", 30)


def threads_of(*pids: int) -> set[str]:
    return {name_of(task) for pid in pids for task in Path(f"/proc/{pid}/task").glob("*/comm")}


def name_of(thread: Path) -> str:
    """The name of a thread; empty for one that has just ended."""
    try:
        return thread.read_text().strip()
    except OSError:
        return ""


def threads_of_group(leader: int) -> set[str]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return threads_of(*(pid for pid in pids if group_of(pid) == leader))


def group_of(pid: int) -> int | None:
    """The process group of a process; None for one that has just ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


@contextmanager
def operated(
    directory: Path,
    changelog: str,
    files: int = 18,
    conf: Mapping[str, str] | None = None,
    tasks: Sequence[int] = (2, 3, 3),
    metadata: str = "",
) -> Iterator[Operator]:
    """An operator of a job on three hosts; `tasks` are the numbers of tasks of its processors at the start."""
    load = Load(directory, metadata, files)
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=directory / "cluster") as cluster:
        load.offer(2)
        own = {
            CHANGELOG: changelog,
            "spark.mooring.processor.rebind.timeout": "60s",
            **first_plan_for(len(HOSTS)),
        }
        job = load.submit(cluster, {**own, **(conf or {})})
        job.wait_until(lambda: load.sizes() == [*tasks], "the first plan", 120)
        load.feed(job)
        operator = Operator(cluster, load, job)
        yield operator
        operator.close()
        load.offer_the_rest_and_finish(job)
    load.assert_right()


@contextmanager
def operated_with_copies(
    directory: Path, files: int = 12, load: Load | None = None
) -> Iterator[tuple[JobWithCopies, Operator]]:
    """A job with warm copies on three hosts, and its operator. `load` is for another job than the usual one."""
    with (
        warm(directory, files=files, load=load) as there,
        closing(Operator(there.cluster, there.load, there.job)) as here,
    ):
        yield there, here
