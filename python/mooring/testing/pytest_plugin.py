"""Fixtures for pytest: a cluster of three hosts, and the servers' logs beside every failed test.

To load it, put `-p mooring.testing.pytest_plugin` into `addopts`, or its name into `pytest_plugins` in the topmost
conftest.py. A test module that needs another cluster overrides `spark_hosts_options`:

    @pytest.fixture(scope="module")
    def spark_hosts_options():
        return {"hosts": 2, "cores_per_host": 2}

    def test_my_job_survives_a_lost_executor(spark_hosts, tmp_path):
        job = spark_hosts.submit("job.py", args=[tmp_path])
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from mooring.testing.servers import started_processes

if TYPE_CHECKING:
    from mooring.testing.cluster import SparkCluster


@pytest.fixture(scope="module")
def spark_hosts_options() -> dict[str, Any]:
    """The arguments of `SparkCluster`; override this in a module or a conftest."""
    return {}


@pytest.fixture(scope="module")
def spark_hosts(
    spark_hosts_options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkCluster]:
    """A running cluster, one for all tests of a module; three hosts of one core unless the options say otherwise."""
    from mooring.testing.cluster import SparkCluster  # here: the import is slow, and tests without Spark skip it

    options = {"work_dir": tmp_path_factory.mktemp("spark-hosts"), **spark_hosts_options}
    with SparkCluster(**options) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state and the end of the log of each running server to the report of a failed test."""
    report = yield
    if report.failed:
        report.sections += [(f"server: {child.name}", child.story()) for child in started_processes()]
    return report
