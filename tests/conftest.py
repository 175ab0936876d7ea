"""For every test: the marker of its folder, the testing kit's fixtures, and how hypothesis draws its examples."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["mooring.testing.pytest_plugin"]

TESTS = Path(__file__).resolve().parent
MARKED_FOLDERS = {"integration", "chaos"}

# A shared machine may stall at any moment, so no example has a deadline. `ci` draws the same examples every time.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """First, so that -m sees the markers."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in MARKED_FOLDERS:
            item.add_marker(folder)
