"""The testing kit's cluster: what is killed is gone, what is revived comes back, on its own host with its own disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.errors import ClusterError
from mooring.testing.cluster import SparkCluster
from mooring.testing.hosts import LOCAL_STORE_VARIABLE
from mooring.testing.probes import wait_until
from mooring.testing.processes import environment, is_alive
from mooring.testing.submission import Submission

IDLE_JOB = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.appName("idle").getOrCreate()
while not Path(sys.argv[1]).exists():
    time.sleep(0.1)
"""
HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


@pytest.fixture
def end(tmp_path: Path) -> Path:
    return tmp_path / "end"


@pytest.fixture
def idle(spark_hosts: SparkCluster, tmp_path: Path, end: Path) -> Iterator[Submission]:
    """An application with an executor on each host, which ends when the file `end` is there."""
    job = tmp_path / "idle.py"
    job.write_text(IDLE_JOB)
    submission = spark_hosts.submit(job, args=[end])
    submission.wait_for_executors(3)
    yield submission
    submission.kill()


@pytest.mark.heavy
def test_executors_die_and_hosts_come_back_under_a_running_application(
    spark_hosts: SparkCluster, idle: Submission, end: Path
) -> None:
    assert [executor.host for executor in spark_hosts.executors(idle.application)] == HOSTS
    for executor in spark_hosts.executors(idle.application):
        store = environment(executor.pid)[LOCAL_STORE_VARIABLE]
        assert store == str(spark_hosts.hosts[executor.host].local_store)

    killed = spark_hosts.kill_executor("127.0.0.3")
    assert not killed.is_alive
    idle.wait_until(lambda: killed.id not in idle.executors(), "the driver to notice")
    assert sorted(idle.wait_for_executors(3).values()) == HOSTS

    lost = spark_hosts.hosts["127.0.0.4"]
    (lost.local_store / "kept").write_text("on this disk")
    spark_hosts.kill_host("127.0.0.4")
    assert lost.executors() == []
    idle.wait_until(lambda: sorted(idle.executors().values()) == HOSTS[:2], "the driver to notice")
    spark_hosts.revive_host("127.0.0.4")
    assert sorted(idle.wait_for_executors(3).values()) == HOSTS
    assert (lost.local_store / "kept").read_text() == "on this disk"

    end.touch()
    idle.finish(60)


@pytest.mark.heavy
def test_a_killed_driver_takes_its_application_with_it(spark_hosts: SparkCluster, idle: Submission) -> None:
    python = idle.helper("idle.py")
    assert python is not None
    executors = spark_hosts.executors(idle.application)
    idle.kill_driver()
    assert not idle.is_running
    for executor in executors:
        wait_until(lambda pid=executor.pid: not is_alive(pid), "the executor to end")
    idle.kill()
    assert not is_alive(python.pid)


def test_a_failed_application_shows_its_log(spark_hosts: SparkCluster, tmp_path: Path) -> None:
    job = tmp_path / "broken.py"
    job.write_text("raise ValueError('the job is broken')")
    with pytest.raises(ClusterError, match=r"(?s)broken.py.* failed.*the job is broken"):
        spark_hosts.submit(job, wait=True)


def test_an_unknown_host_is_named_with_those_that_there_are(spark_hosts: SparkCluster) -> None:
    with pytest.raises(ClusterError, match=r"no host '127.0.0.9'; there are 127.0.0.2, 127.0.0.3, 127.0.0.4"):
        spark_hosts.kill_host("127.0.0.9")
    with pytest.raises(ClusterError, match=r"0 executors match '127.0.0.9'"):
        spark_hosts.kill_executor("127.0.0.9")
