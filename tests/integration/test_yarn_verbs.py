"""Every request of an operator on YARN: it does what its page says, or is refused before an executor is ended."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from mooring.testing.yarn import YarnCluster
from tests.integration.support.job_runs import JOB_CONF
from tests.integration.support.job_with_warm_copies import STANDBY, copies_in
from tests.integration.support.restarted_on_cluster import RestartedJob
from tests.integration.support.yarn_hosts import EXECUTORS, HOSTS, KEEPS_LOCALITY

pytestmark = pytest.mark.heavy

TASKS = int(JOB_CONF["spark.sql.shuffle.partitions"])
NOT_ON_YARN = "YARN starts the successor of an executor on any host"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    conf = {**JOB_CONF, "spark.executor.instances": str(EXECUTORS), "spark.locality.wait": "30s"}  # for a slow machine
    directory = tmp_path_factory.mktemp("cluster")
    with YarnCluster(HOSTS, work_dir=directory, conf=conf, host_memory_mb=4000, scheduler=KEEPS_LOCALITY) as cluster:
        yield cluster


class OperatedJob(RestartedJob):
    """A job on YARN, and what an operator asks of it."""

    def asks(self, *words: str) -> tuple[str, str]:
        """Run a command that makes a request, and wait for its end: the status code, and the message."""
        with redirect_stdout(io.StringIO()) as out:
            self.drainable.command(*words, "--wait", "--json", "--timeout", "120s")
        answer = json.loads(out.getvalue())
        return answer["statusCode"], answer["responseMessage"]

    def places(self, id: str, destination: str, *more: str) -> tuple[str, str]:
        return self.asks("place-container", "--processor-id", id, "--destination-host", destination, *more)

    def reads(self, *words: str) -> Any:
        """The JSON of a command that changes nothing."""
        with redirect_stdout(io.StringIO()) as out:
            assert self.drainable.command(*words, "--json") == 0
        return json.loads(out.getvalue())

    def at(self, id: str) -> str:
        """The location of a processor."""
        return str(next(found["location"] for found in self.load.status()["processors"] if found["id"] == id))

    def copied_at(self, id: str) -> set[str]:
        """The locations of the copies of a processor's tasks."""
        status = self.load.status()
        tasks = next(found["tasks"] for found in status["processors"] if found["id"] == id)
        return {copy["location"] for copy in copies_in(status) if any(f"-{task}-" in copy["name"] for task in tasks)}

    def waits_for_copies_at(self, id: str, *hosts: str) -> None:
        self.job.wait_until(lambda: self.copied_at(id) == set(hosts), f"copies of {id} at {hosts}", 60)

    def elsewhere(self, *hosts: str) -> list[str]:
        """The hosts with executors, but these."""
        return [host for host in self.hosts() if host not in hosts]

    def pids(self) -> set[int]:
        """The processes of all executors."""
        return {executor.pid for executor in self.cluster.executors(self.job.application)}


def refused(answer: tuple[str, str], words: str) -> bool:
    code, message = answer
    assert code == "BAD_REQUEST" and words in message, answer
    return True


def succeeded(answer: tuple[str, str]) -> bool:
    assert answer[0] == "SUCCEEDED", answer
    return True


@pytest.fixture(scope="module")
def one_job(cluster: YarnCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatedJob]:
    """The tests follow each other on one job. Its rows are right after all of them."""
    job = OperatedJob(cluster, tmp_path_factory.mktemp("job"), **STANDBY)
    assert len(job.hosts()) == EXECUTORS
    yield job
    job.drain()


@pytest.fixture
def job(one_job: OperatedJob) -> Iterator[OperatedJob]:
    """The job, with warm copies. No request ends one of its executors."""
    one_job.wait_until_caught_up(TASKS)
    before = one_job.pids()
    yield one_job
    assert one_job.pids() == before


def test_a_processor_without_copies_goes_to_a_host_and_to_any_host(job: OperatedJob) -> None:
    there, third = job.elsewhere(job.at("1"))
    assert succeeded(job.asks("control-standby", "--processor-id", "1", "stop"))
    assert job.reads("plan", "--move", f"1={there}")["moves"]
    assert succeeded(job.places("1", there)) and job.at("1") == there
    assert succeeded(job.places("1", third, "--request-expiry", "30s")) and job.at("1") == third
    assert succeeded(job.places("1", "ANY_HOST")) and job.at("1") != third
    assert succeeded(job.asks("control-standby", "--processor-id", "1", "start"))
    job.commit_more()


@pytest.mark.parametrize("destination", ["LAST_SEEN", "its own host"])
def test_no_restart_in_place(job: OperatedJob, destination: str) -> None:
    at = job.at("0")
    assert refused(job.places("0", at if destination == "its own host" else destination), NOT_ON_YARN)
    assert job.at("0") == at


def test_a_processor_goes_to_its_copies_by_STANDBY_only(job: OperatedJob) -> None:
    copied_at = sorted(job.copied_at("0"))
    assert refused(job.places("0", copied_at[0]), "no two copies of a task at one location")
    assert succeeded(job.places("0", "STANDBY")) and job.at("0") in copied_at
    job.commit_more()


def test_a_host_without_an_executor_is_waited_for_and_nothing_is_changed(job: OperatedJob) -> None:
    at, empty = job.at("0"), next(host for host in job.cluster.hosts if host not in job.hosts())
    code, message = job.places("0", empty, "--request-expiry", "5s")
    assert code == "FAILED" and empty in message, message
    assert job.at("0") == at


def test_copies_go_to_a_host_and_to_any_host_and_are_restarted(job: OperatedJob) -> None:
    at = job.at("2")
    there, third = job.elsewhere(at)
    assert succeeded(job.places("2-0", there))
    job.waits_for_copies_at("2", there)
    assert succeeded(job.places("2-0", "LAST_SEEN"))
    job.waits_for_copies_at("2", there)
    assert succeeded(job.places("2-0", "ANY_HOST"))
    job.waits_for_copies_at("2", third)
    assert refused(job.places("2-0", at), "no two copies of a task at one location")
    assert refused(job.places("2-0", "STANDBY"), "is a standby and has none")
    job.commit_more()


def test_copies_are_stopped_and_started(job: OperatedJob) -> None:
    assert succeeded(job.asks("control-standby", "--processor-id", "2", "stop"))
    job.waits_for_copies_at("2")
    assert refused(job.places("2", "STANDBY"), "has no standby")
    assert refused(job.places("2-0", job.elsewhere(job.at("2"))[0]), "are stopped")
    assert succeeded(job.asks("control-standby", "--processor-id", "2", "start"))


def test_a_host_is_emptied_and_opened(job: OperatedJob) -> None:
    drained = job.at("0")
    assert succeeded(job.asks("drain-host", drained))
    assert job.tasks_of(drained) == 0 and drained not in job.hosts_in_file()
    assert drained not in {copy["location"] for copy in job.copies()}
    other = next(found["id"] for found in job.load.status()["processors"] if found["tasks"])
    assert refused(job.places(other, drained), "is drained")
    assert refused(job.places(f"{other}-0", drained), "is drained")
    assert succeeded(job.asks("open-host", drained))
    job.job.wait_until(lambda: job.tasks_of(drained) > 0, "tasks to come back", 120)
    job.commit_more()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("place-container", "--processor-id", "77", "--destination-host", "ANY_HOST"), "there is no processor 77"),
        (("place-container", "--processor-id", "77-0", "--destination-host", "ANY_HOST"), "there is no processor 77-0"),
        (("place-container", "--processor-id", "0", "--destination-host", "last_seen"), "nearest: LAST_SEEN"),
        (("control-standby", "--processor-id", "77", "stop"), "there is no processor 77"),
        (("drain-host", "10.9.8.7"), "there is no host 10.9.8.7"),
        (("open-host", "10.9.8.7"), "there is no host 10.9.8.7"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_refused(job: OperatedJob, words: tuple[str, ...], why: str) -> None:
    assert refused(job.asks(*words), why)


def test_the_last_open_host_is_not_emptied(job: OperatedJob) -> None:
    first, second, last = job.hosts()
    try:
        assert succeeded(job.asks("drain-host", first))
        assert job.drainable.command("drain-host", second) == 0  # without copies elsewhere it goes on, so do not wait
        job.job.wait_until(lambda: job.tasks_of(second) == 0, "the second host to be empty", 120)
        assert refused(job.asks("drain-host", last), "is the last one that is open and lives")
    finally:
        for host in (first, second):
            assert succeeded(job.asks("open-host", host))
    job.commit_more()


def test_without_host_affinity_only_any_host_is_possible_and_replaces_the_executor(
    cluster: YarnCluster, tmp_path: Path
) -> None:
    job = OperatedJob(cluster, tmp_path, **{"spark.mooring.host.affinity.enabled": "false"})
    before = job.pids()
    for destination in (job.hosts()[0], "LAST_SEEN", "STANDBY"):
        assert refused(job.places("0", destination), "spark.mooring.host.affinity.enabled is false")
    assert job.pids() == before
    code, message = job.places("0", "ANY_HOST")
    assert code == "SUCCEEDED", message
    job.job.wait_until(lambda: len(job.pids()) == EXECUTORS and job.pids() != before, "another executor", 60)
    job.drain()


@pytest.mark.parametrize("mode", ["now", "after-available"])
def test_a_job_is_stopped_and_goes_on_where_it_was(cluster: YarnCluster, tmp_path: Path, mode: str) -> None:
    job = OperatedJob(cluster, tmp_path)
    hosts = job.hosts()
    assert job.drainable.command("stop", "--mode", mode, "--wait", "--timeout", "120s") == 0
    job.job.finish(120)
    assert all(opening["remote-bytes"] == 0 for opening in job.start())
    assert job.hosts() == hosts
    job.drain()
