"""However an application ends, Mooring warns of nothing: whoever looks for faults in the log finds true ones only."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from mooring.testing.cluster import SparkCluster
from mooring.testing.probes import wait_until
from mooring.testing.processes import is_alive
from mooring.testing.servers import ChildProcess
from tests.integration.support.file_fed_job import status_in
from tests.integration.support.local_runs import ENDS, PLUGIN, LocalRuns, Send, agents_of
from tests.integration.support.short_lived_settings import SHORT_LIVED

OURS = re.compile(
    r" (WARN|ERROR|FATAL) .*(Mooring|plugin\.io\.mooring)"
    r"| ERROR .*Query standby of"
    r"|^Exception in thread \"(mooring|.*standby of)"
)
"""What an operator would look at; a failure of the agent and of a replica query is logged so as well."""

NOT_OURS = re.compile(
    r"^ExitCodeException|Cannot run program|\[INTERNAL_ERROR\]|SparkContext has been shutdown|on a stopped SparkContext"
)
"""The reason of an error that a query of the user has in stock Spark too.

A signal to the process group also ends a process that Hadoop has just started to write a query's files. A batch that
begins in the moment in which the context stops finds no scheduler.
"""

SIGNALS: dict[str, Send] = {
    "SIGTERM to the driver": lambda pid: os.kill(pid, signal.SIGTERM),
    "SIGTERM to the process group": lambda pid: os.killpg(pid, signal.SIGTERM),
    "SIGINT to the process group": lambda pid: os.killpg(pid, signal.SIGINT),
    "SIGHUP to the process group": lambda pid: os.killpg(pid, signal.SIGHUP),
}
WAYS: dict[str, tuple[str, Send | None]] = {
    "the session is stopped": ("stop", None),
    "the query is stopped": ("query", None),
    "the job fails": ("raise", None),
    "the JVM is told to exit": ("exit", None),
    **{name: ("wait", send) for name, send in SIGNALS.items()},
}


def warned_of(log: Path) -> list[str]:
    """The lines of ours that an operator would have to look at."""
    lines = log.read_text(errors="replace").splitlines()
    pairs = zip(lines, [*lines[1:], ""], strict=True)
    return [line for line, after in pairs if OURS.search(line) and not NOT_OURS.search(after)]


def heeds_no_signal(process: ChildProcess, records: Path) -> None:
    """The agent goes on when it alone gets what is meant for the driver."""
    agents, before = agents_of(process), status_in(str(records)).get("at", 0)
    for agent, one in product(agents, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
        os.kill(agent, one)
    wait_until(lambda: status_in(str(records)).get("at", 0) > before, "the agent's next status", 30)
    assert agents_of(process) == agents


def agents_when_ready(runs: LocalRuns, process: ChildProcess) -> list[int]:
    """The agents at the last look before the batches were done. The application may end at once after that."""
    agents: list[int] = []

    def is_ready() -> bool:
        is_ready = runs.is_ready(process)
        agents[:] = agents_of(process) or (agents if is_ready else [])
        return is_ready

    wait_until(is_ready, "its batches", 120, story=process.story)
    return agents


def run(runs: LocalRuns, batches: str, way: str, send: Send | None = None) -> Path:
    """One run to its end; returns its log."""
    with runs.running("ckpt", batches, way) as process:
        agents = agents_when_ready(runs, process)
        assert agents, "the agent must live until the application ends"
        if send is not None:
            heeds_no_signal(process, runs.directory / "_mooring" / "ends")
            send(process.pid)
        process.wait(60)
        wait_until(lambda: not any(map(is_alive, agents)), "the agent to end with the driver", 20)
    return process.log


def test_an_end_by_a_signal_to_all_processes_and_one_while_state_is_fetched_are_not_warned_of(tmp_path: Path) -> None:
    runs = LocalRuns(tmp_path)
    log = run(runs, "2", *WAYS["SIGTERM to the process group"])
    assert warned_of(log) == []
    log = run(runs, "busy", "stop")
    assert "at an ordinary end: its fetching state ahead failed" in log.read_text(), "the test came too late"
    assert warned_of(log) == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    conf = {
        **PLUGIN,
        **SHORT_LIVED,
        "spark.sql.shuffle.partitions": "4",
        "spark.mooring.standby.replication.factor": "2",
    }
    with SparkCluster(hosts=2, work_dir=tmp_path_factory.mktemp("ends"), conf=conf) as cluster:
        yield cluster


@pytest.mark.heavy
@pytest.mark.parametrize("batches", ["0", "2"], ids=["at the start", "after two batches"])
@pytest.mark.parametrize("way", WAYS)
def test_no_end_is_warned_of_by_driver_or_executors(
    cluster: SparkCluster, tmp_path: Path, way: str, batches: str
) -> None:
    how, send = WAYS[way]
    before, ready = set(_logs(cluster)), tmp_path / "ready"
    submission = cluster.submit(ENDS, [cluster.work_dir / "ckpt", ready, batches, how])
    submission.wait_until(ready.exists, "batches", 120)
    if send is not None:
        send(submission.process.pid)
    submission.wait(60)
    wait_until(lambda: not cluster.executors(), "the executors to end", 30)
    logs = set(_logs(cluster)) - before
    assert len(logs) >= 2, "the driver's, and those of executors"
    assert {log: lines for log in logs if (lines := warned_of(log))} == {}


def _logs(cluster: SparkCluster) -> list[Path]:
    return [*cluster.work_dir.rglob("driver.log"), *cluster.work_dir.rglob("stderr")]
