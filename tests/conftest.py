"""For every test: the marker of its folder, its process when there are two, the fixtures of the kit, hypothesis."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mooring.installed_spark import installed_spark

pytest_plugins = ["mooring.testing.pytest_plugin"]

TESTS = Path(__file__).resolve().parent
MARKED_FOLDERS = {"integration", "chaos", "versions"}

# A shared machine may stall at any moment, so no example has a deadline. `ci` draws the same examples every time.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("few", deadline=None, max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


# A shell that starts the tests in the background, or nohup, has them ignore these, and so would all that they start.
for ignorable in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignorable) is signal.SIG_IGN:
        signal.signal(ignorable, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def spark_of_this_run(record_testsuite_property):
    """Puts the version of Spark into a report of `--junitxml`; scripts/tried.py keeps the results by it."""
    spark = installed_spark({})
    if spark is not None:
        record_testsuite_property("spark", spark.version)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """First, so that -m sees the markers."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
        # With two processes each module has one; all modules with clusters have the same, as two clusters are too much.
        has_cluster = folder in MARKED_FOLDERS and item.get_closest_marker("one_jvm") is None
        item.add_marker(pytest.mark.xdist_group("clusters" if has_cluster else item.nodeid.partition("::")[0]))
