"""Executors, hosts and the agent are killed, silenced, slowed or told to go at random moments: the answer is right.

MOORING_CHAOS_SEED=7 repeats one run; each test prints its seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.jar import jar_path
from mooring.testing.cluster import SparkCluster
from mooring.testing.processes import descendants
from mooring.testing.submission import Submission
from tests.integration.support import answers
from tests.integration.support.bad_host import AtABadHost
from tests.integration.support.job_runs import JOB_CONF, JOBS, Job, JobRun, write_input
from tests.integration.support.job_with_warm_copies import CHANGELOG, STANDBY

HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
# A task fails for each executor that dies under it; with Spark's defaults the faults themselves would end the job.
PATIENT = {
    "spark.task.maxFailures": "40",
    "spark.stage.maxConsecutiveAttempts": "40",
    "spark.network.timeout": "40s",
    "spark.network.timeoutInterval": "20s",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
}
# Spark leaves executors out after failures, and makes a second attempt of a task that takes long.
WARY = {
    "spark.excludeOnFailure.enabled": "true",
    "spark.excludeOnFailure.timeout": "8s",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "200ms",
}
LIVENESS_SECONDS = 5
KEEPS_COPIES = {
    **STANDBY,
    CHANGELOG: "true",
    "spark.mooring.liveness.timeout": f"{LIVENESS_SECONDS}s",
}


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    return {"executor_memory": "768m", "conf": {**JOB_CONF, **PATIENT}}


@pytest.mark.parametrize(
    "job",
    [
        Job("windowed_aggregation", answers.windowed_aggregation),
        Job("transform_with_state", answers.transform_with_state),
        Job("left_outer_join", answers.left_outer_join),
    ],
    ids=lambda job: job.name,
)
@pytest.mark.parametrize("copies", [{}, KEEPS_COPIES], ids=["no copies", "copies"])
def test_a_job_gives_the_right_answer_through_random_faults(
    job: Job, copies: dict[str, str], spark_hosts: SparkCluster, tmp_path: Path
) -> None:
    seed = int(os.environ.get("MOORING_CHAOS_SEED") or random.randrange(10_000))
    print(f"MOORING_CHAOS_SEED={seed}")
    run = JobRun(job, write_input(tmp_path / "events"), tmp_path)
    conf = {"spark.plugins": "io.mooring.MooringPlugin", "spark.jars": str(jar_path()), **copies}
    submission = spark_hosts.submit(JOBS / f"{job.name}.py", run.arguments, conf=conf)
    submission.wait_until(lambda: run.committed() >= 1, "the first batch", timeout=180)
    faults = Faults(random.Random(seed), spark_hosts, submission, longest_silence=3 * LIVENESS_SECONDS if copies else 5)
    while submission.is_running and len(faults.done) < 8:
        faults.strike()
    faults.heal()
    submission.finish(300)
    print(", ".join(faults.done))
    assert faults.done, "the job ended before anything happened to it"
    run.assert_right()


@pytest.mark.parametrize("copies", [{}, KEEPS_COPIES], ids=["no copies", "copies"])
def test_a_wary_scheduler_gets_the_right_answer_of_hosts_that_fail_and_lag(
    copies: dict[str, str], spark_hosts: SparkCluster, tmp_path: Path
) -> None:
    seed = int(os.environ.get("MOORING_CHAOS_SEED") or random.randrange(10_000))
    print(f"MOORING_CHAOS_SEED={seed}")
    load = AtABadHost(tmp_path, files=16)
    load.offer(1)
    submission = load.submit(spark_hosts, conf={**WARY, **copies})
    submission.wait_until(lambda: load.committed() >= 1, "the first batch", timeout=180)
    load.offer(15)
    faults = UnreliableHosts(
        random.Random(seed), spark_hosts, submission, longest_silence=3 * LIVENESS_SECONDS if copies else 5, load=load
    )
    while len(faults.done) < 10 and not load.is_idle():
        faults.strike()
    faults.heal()
    load.offer_the_rest_and_finish(submission)
    print(", ".join(faults.done))
    assert faults.done, "the job ended before anything happened to it"
    load.assert_right()


class Faults:
    """One fault after the other, with a pause of a drawn length after each; at most one host is down at a time."""

    def __init__(
        self, draw: random.Random, cluster: SparkCluster, submission: Submission, longest_silence: float
    ) -> None:
        """`longest_silence`: of a host, in seconds."""
        self._draw = draw
        self._longest_silence = longest_silence
        self._cluster = cluster
        self._submission = submission
        self._down: str | None = None
        self.done: list[str] = []

    def strike(self) -> None:
        """Let one thing go wrong."""
        self.heal()
        host = self._draw.choice(HOSTS)
        fault = self._draw.choice(self._kinds())
        fault(host)
        self.done.append(f"{fault.__name__.strip('_')} {host}")
        time.sleep(self._draw.uniform(0.5, 6))

    def _kinds(self) -> list[Callable[[str], None]]:
        faults = [self._kill_executor, self._kill_two, self._kill_host, self._pause_host, self._tell_to_go]
        return [*faults, self._kill_agent]

    def heal(self) -> None:
        """Bring back the host that is down, if one is."""
        if self._down is not None:
            self._cluster.revive_host(self._down)
            self._down = None

    def _kill_executor(self, host: str) -> None:
        for executor in self._cluster.hosts[host].executors():
            executor.kill()

    def _kill_two(self, host: str) -> None:
        """An executor, and another one that may have its copies."""
        for one in (host, self._draw.choice([other for other in HOSTS if other != host])):
            self._kill_executor(one)

    def _tell_to_go(self, host: str) -> None:
        for executor in self._cluster.hosts[host].executors():
            executor.decommission()

    def _kill_host(self, host: str) -> None:
        self._cluster.kill_host(host)
        self._down = host

    def _pause_host(self, host: str) -> None:
        self._cluster.pause_host(host)
        time.sleep(self._draw.uniform(0.5, self._longest_silence))
        self._cluster.resume_host(host)

    def _kill_agent(self, host: str) -> None:
        for child in descendants(self._submission.process.pid):
            if child.option("-m") == "mooring.agent":
                os.kill(child.pid, 9)


class UnreliableHosts(Faults):
    """Beside these faults, any host may be slow for a while, and tasks may fail at one of the hosts, always the same.

    Spark ends a job when no executor is left for a task.
    """

    def __init__(
        self,
        draw: random.Random,
        cluster: SparkCluster,
        submission: Submission,
        longest_silence: float,
        load: AtABadHost,
    ) -> None:
        super().__init__(draw, cluster, submission, longest_silence)
        self._load = load
        self._bad = draw.choice(HOSTS)

    def heal(self) -> None:
        """Let tasks succeed everywhere, too."""
        super().heal()
        (self._load.events / "FAILS-AT").unlink(missing_ok=True)

    def _kinds(self) -> list[Callable[[str], None]]:
        often = 3 * [self._fail_at_the_bad_host, self._slow_down]
        return [*often, self._kill_executor, self._tell_to_go, self._kill_agent]

    def _fail_at_the_bad_host(self, host: str) -> None:
        """Until the next fault."""
        self._load.marks("FAILS-AT", self._bad)

    def _slow_down(self, host: str) -> None:
        """It runs for a tenth of a second at a time, and stands still for one to five of them in between."""
        for _ in range(self._draw.randrange(5, 30)):
            self._cluster.pause_host(host)
            time.sleep(0.1 * self._draw.randint(1, 5))
            self._cluster.resume_host(host)
            time.sleep(0.1)
