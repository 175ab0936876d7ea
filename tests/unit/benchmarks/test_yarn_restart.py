"""What the benchmark of restarts on YARN reads from a driver's log."""

import os

import pytest

from benchmarks import yarn_restart
from benchmarks.part import Part
from benchmarks.sides import Run, Side
from benchmarks.yarn_restart import CLUSTER, FULL, Subject, figures_of
from mooring.cli.exits import BadUsage
from mooring.errors import ClusterError

BACKEND = "org.apache.spark.scheduler.cluster.YarnSchedulerBackend"
BLOCKS = "org.apache.spark.storage.BlockManagerMasterEndpoint"
DRIVER_LOG = f"""\
WARNING: Using incubator modules: jdk.incubator.vector
1767607201000|INFO|main|{BACKEND}|ApplicationMaster registered as NettyRpcEndpointRef(spark://YarnAM@127.0.0.5:4000)
1767607203000|INFO|d|{BACKEND}|Registered executor NettyRpcEndpointRef(spark-client://Executor) (127.0.0.1:4000) with \
ID 2,  ResourceProfileId 0
1767607202500|INFO|d|{BACKEND}|Registered executor NettyRpcEndpointRef(spark-client://Executor) (127.0.0.1:4000) with \
ID 1,  ResourceProfileId 0
1767607204000|INFO|d|{BACKEND}|Registered executor NettyRpcEndpointRef(spark-client://Executor) (127.0.0.1:4000) with \
ID 3,  ResourceProfileId 0
1767607203100|INFO|d|{BLOCKS}|Registering block manager 127.0.0.1:5000 with 1 MiB RAM, BlockManagerId(driver, \
127.0.0.1, 5000, None)
1767607203200|INFO|d|{BLOCKS}|Registering block manager 127.0.0.3:5001 with 1 MiB RAM, BlockManagerId(2, 127.0.0.3, \
5001, None)
1767607203300|INFO|d|{BLOCKS}|Registering block manager 127.0.0.2:5002 with 1 MiB RAM, BlockManagerId(1, 127.0.0.2, \
5002, None)
1767607204100|INFO|d|{BLOCKS}|Registering block manager 127.0.0.6:5003 with 1 MiB RAM, BlockManagerId(3, 127.0.0.6, \
5003, None)
"""


@pytest.fixture
def checkpoint(tmp_path):
    commit = tmp_path / "ck" / "commits" / "7"
    commit.parent.mkdir(parents=True)
    commit.write_text("v1\n")
    os.utime(commit, (1767607209, 1767607209))
    return tmp_path / "ck"


def test_times_count_from_the_submission_and_hosts_of_the_last_run_are_counted(checkpoint):
    run = Run(1767607200.0, {"progress": [{"batchId": 7}]}, (), ())
    seen, hosts = figures_of(run, DRIVER_LOG, checkpoint, "mooring", ["127.0.0.2", "127.0.0.4", "127.0.0.6"])
    assert hosts == ["127.0.0.2", "127.0.0.3", "127.0.0.6"]
    assert seen == {
        "master-seconds": 1.0,
        "first-executor-seconds": 2.5,
        "all-executors-seconds": 4.0,
        "first-commit-seconds": 9.0,
        "hosts-of-last-run": 2.0,
        "remote-bytes": 0.0,
    }


def test_a_start_that_lacks_an_executor_is_no_figure(checkpoint):
    run = Run(1767607200.0, {"progress": [{"batchId": 7}]}, (), ())
    log = DRIVER_LOG.replace("with ID 3", "without an id")
    with pytest.raises(ClusterError, match="2 of 3 executors"):
        figures_of(run, log, checkpoint, "mooring", [])


def test_one_deploy_mode_and_size_can_run_alone(monkeypatch):
    asked = []
    monkeypatch.setattr(yarn_restart, "measure", lambda plan: asked.append(plan) or {})
    yarn_restart.run(False, Part(("cluster",), (0.5,), 2))
    assert [case.load for case in asked[0].cases] == [CLUSTER]
    assert (asked[0].sizes_gb, asked[0].rounds) == ((0.5,), 2)
    with pytest.raises(BadUsage, match="nearest: client"):
        yarn_restart.run(False, Part(("clinet",)))
    yarn_restart.run(False)
    assert asked[-1] == FULL


def test_each_kind_of_start_is_met_at_a_host_of_the_run_before(monkeypatch):
    done = []

    class Cluster:
        def __getattr__(self, name):
            return lambda *arguments: done.append((name, *arguments))

    class Fake(Subject):
        def start(self, cluster, load):
            done.append(self.side.name)
            self.hosts = [f"host of {self.side.name}"]
            return {"first-commit-seconds": 1.0}

    subjects = [Fake(Side("stock", {}), None), Fake(Side("mooring", {}), None)]
    yarn_restart._measure_case(Cluster(), subjects, FULL.cases[0], 2, "test")
    gone = [("kill_host", "host of stock"), ("wait_until_lost", "host of stock"), "stock"]
    assert done[2:7] == ["stock", "mooring", *gone]
    assert ("resize_host", "host of mooring", yarn_restart.SMALLEST_MB) in done
    first, second = done[2:4], done[done.index(("resize_host", "host of mooring", 4000)) + 1 :][:2]
    assert (first, second) == (["stock", "mooring"], ["mooring", "stock"]), "the sides take turns"
    assert subjects[0].measured == {(s, "first-commit-seconds"): [1.0, 1.0] for s in FULL.cases[0].starts}
