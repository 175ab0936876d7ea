"""Two drivers of one job on YARN, with records in ZooKeeper: one leads, the other takes over on the same hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mooring.testing.probes import wait_until
from mooring.testing.submission import Submission
from mooring.testing.yarn import DriverOnYarn, YarnCluster
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.file_fed_job import PARTITIONS, Load
from tests.integration.support.job_runs import JOBS
from tests.integration.support.job_with_warm_copies import JobWithCopies
from tests.integration.support.restarted_job import said
from tests.integration.support.yarn_hosts import EXECUTORS, HOSTS, KEEPS_LOCALITY

pytestmark = pytest.mark.heavy

SILENCE = "6s"
"""After this time without a word of a driver another one leads."""
IN_CONTAINER = {"spark.submit.deployMode": "cluster", "spark.submit.pyFiles": str(JOBS / "streams.py")}


class TwoDrivers:
    """A job with a driver that leads and a driver that waits."""

    def __init__(self, cluster: YarnCluster, directory: Path, ensemble: ZooKeeperEnsemble, **conf: str) -> None:
        """Start both. The first one has committed two batches, and its executors' hosts are noted."""
        self.cluster, self.directory = cluster, directory
        self.load = Load(directory, f"zk://{ensemble.hosts}/jobs", files=10)
        self._conf = {
            "spark.mooring.metadata.timeout": SILENCE,
            "spark.sql.streaming.checkpointLocation": str(directory / "session"),  # the hosts are noted beside it
            "spark.yarn.am.waitTime": "600s",
            **conf,
        }
        self.load.offer(2)
        self.first = self.submit()
        self.first.wait_until(lambda: self.load.committed() >= 2, "two batches", 180)
        self.first.wait_until(
            lambda: self.hosts_noted() == self.hosts_of(self.first) != [], "the hosts in the file", 60
        )
        self.hosts = self.hosts_noted()
        assert len(self.hosts) == EXECUTORS
        self.second = self.submit()
        self.second.wait_until(
            lambda: said(self.second.log, "this driver is a standby") == 1, "the standby to wait", 120
        )
        self.rests(self.first)

    def submit(self) -> Submission:
        return self.load.submit(self.cluster, self._conf)

    def close(self) -> None:
        """End both, so that the next test has the cluster for itself."""
        for driver in (self.first, self.second):
            driver.kill()
        wait_until(lambda: self.cluster.applications() == [], "the applications to end", 60)

    def hosts_of(self, driver: Submission) -> list[str]:
        """The host of each executor of a driver that lives."""
        return sorted(executor.host for executor in self.cluster.executors(driver.application))

    def hosts_noted(self) -> list[str]:
        """The hosts on which the next driver wants executors; empty before there is a file."""
        files = self.directory.rglob("wanted-hosts-*.json")
        return sorted(host for file in files for host in json.loads(file.read_text())["hosts"])

    def rests(self, driver: Submission) -> None:
        """Have a driver commit a batch, and wait until none is left to do."""
        self.load.feed(driver)
        driver.wait_until(self.load.is_idle, "the batches to be over", 60)

    def goes_on_with(self, driver: Submission) -> int:
        """Wait until a driver has taken over and committed a batch: the bytes that its executors fetched meanwhile."""
        here = JobWithCopies(self.cluster, self.load, driver)
        before, committed = len(here.openings()), self.load.committed()
        self.load.offer(1)
        driver.wait_until(lambda: said(driver.log, "this driver takes over") == 1, "the standby to lead", 90)
        driver.wait_until(lambda: self.load.committed() > committed, "its first commit", 180)
        openings = here.openings()[before:]
        assert len(openings) >= PARTITIONS
        return sum(opening["remote-bytes"] for opening in openings)

    def finishes_with(self, driver: Submission) -> None:
        """Have the job end, and check its rows."""
        self.load.offer_the_rest_and_finish(driver)
        self.load.assert_right()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnCluster]:
    """Each host has room for two executors and two drivers, or for one large executor and two application masters."""
    conf = {"spark.executor.instances": str(EXECUTORS)}
    directory = tmp_path_factory.mktemp("cluster")
    with YarnCluster(HOSTS, work_dir=directory, conf=conf, host_memory_mb=6000, scheduler=KEEPS_LOCALITY) as cluster:
        yield cluster


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(work_dir=tmp_path / "zookeeper") as ensemble:
        yield ensemble


def test_a_standby_on_the_machine_that_submits_takes_the_hosts_over(
    cluster: YarnCluster, tmp_path: Path, ensemble: ZooKeeperEnsemble
) -> None:
    with closing(TwoDrivers(cluster, tmp_path, ensemble)) as drivers:
        assert cluster.applications() == [drivers.first.application], "a standby asks YARN for nothing"
        drivers.first.kill()
        assert drivers.goes_on_with(drivers.second) == 0
        assert drivers.hosts_of(drivers.second) == drivers.hosts
        wait_until(lambda: cluster.applications() == [drivers.second.application], "the first application to end", 60)
        drivers.finishes_with(drivers.second)


def test_a_standby_in_a_container_takes_the_hosts_over_and_the_next_attempt_is_its_standby(
    cluster: YarnCluster, tmp_path: Path, ensemble: ZooKeeperEnsemble
) -> None:
    with closing(TwoDrivers(cluster, tmp_path, ensemble, **IN_CONTAINER)) as drivers:
        first, second = drivers.first, drivers.second
        assert isinstance(first, DriverOnYarn)
        assert drivers.hosts_of(second) == [], "a standby has a container for its driver only"
        first.kill_driver()
        assert drivers.goes_on_with(second) == 0
        assert drivers.hosts_of(second) == drivers.hosts
        first.wait_until(lambda: said(first.log, "this driver is a standby") == 1, "the next attempt to wait", 120)
        assert drivers.hosts_of(first) == []
        drivers.load.feed(second)
        first.terminate()
        drivers.finishes_with(second)


def test_a_driver_that_slept_takes_no_host_back_and_notes_none(
    cluster: YarnCluster, tmp_path: Path, ensemble: ZooKeeperEnsemble
) -> None:
    with closing(TwoDrivers(cluster, tmp_path, ensemble)) as drivers:
        first, second = drivers.first, drivers.second
        first.process.pause()
        assert drivers.goes_on_with(second) == 0
        assert drivers.hosts_of(second) == drivers.hosts == drivers.hosts_of(first), "there is room for both"
        first.process.resume()
        drivers.load.feed(second)
        wait_until(lambda: said(first.log, "this one stops its queries") == 1, "the sleeper to stop", 60)
        wait_until(lambda: not first.is_running, "the sleeper's application to end", 60)
        assert drivers.hosts_of(second) == drivers.hosts_noted() == drivers.hosts
        drivers.finishes_with(second)


def test_a_full_host_costs_the_next_driver_its_own_share_only(
    cluster: YarnCluster, tmp_path: Path, ensemble: ZooKeeperEnsemble
) -> None:
    with closing(TwoDrivers(cluster, tmp_path, ensemble, **{"spark.executor.memory": "4g"})) as drivers:
        drivers.first.process.pause()
        fetched = drivers.goes_on_with(drivers.second)
        assert not set(drivers.hosts_of(drivers.second)) & set(drivers.hosts), "each of them is full"
        assert fetched > 0
        assert f"not on {', '.join(drivers.hosts)}" in drivers.second.log
        drivers.first.kill()
        drivers.finishes_with(drivers.second)


def test_yarn_ends_a_standby_in_a_container_from_time_to_time_and_starts_its_next_attempt(
    cluster: YarnCluster, tmp_path: Path, ensemble: ZooKeeperEnsemble
) -> None:
    """YARN awaits an application master for `yarn.am.liveness-monitor.expiry-interval-ms`, which is a minute here."""
    attempts = {
        "spark.yarn.maxAppAttempts": "2",
        "spark.yarn.am.attemptFailuresValidityInterval": "30s",
        "spark.yarn.preserve.staging.files": "true",  # Spark's second attempt of two removes what the third one needs
    }
    with closing(TwoDrivers(cluster, tmp_path, ensemble, **IN_CONTAINER, **attempts)) as drivers:
        first, second = drivers.first, drivers.second
        second.wait_until(lambda: said(second.log, "this driver is a standby") == 3, "the third attempt to wait", 300)
        assert len(cluster.masters(second.application)) == 1, "YARN has ended the attempts before"
        drivers.rests(first)
        assert isinstance(first, DriverOnYarn)
        first.terminate()
        assert drivers.goes_on_with(second) == 0
        drivers.finishes_with(second)
