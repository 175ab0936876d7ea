"""Fixtures for pytest: a cluster of three hosts, and the servers' logs beside every failed test.

Not loaded by itself: put `-p mooring.testing.pytest_plugin` into `addopts`, or `pytest_plugins` into the topmost
conftest.py. A module that wants another cluster overrides `spark_hosts_options`:

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
    """What `SparkCluster` is made with; override it in a module or a conftest."""
    return {}


@pytest.fixture(scope="module")
def spark_hosts(
    spark_hosts_options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkCluster]:
    """A running cluster, one for all tests of a module; three hosts of one core unless the options say otherwise."""
    from mooring.testing.cluster import SparkCluster  # here, so that tests without Spark do not wait for its import

    options = {"work_dir": tmp_path_factory.mktemp("spark-hosts"), **spark_hosts_options}
    with SparkCluster(**options) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failed test what each server that runs has to say."""
    report = yield
    if report.failed:
        report.sections += [(f"server: {child.name}", child.story()) for child in started_processes()]
    return report
