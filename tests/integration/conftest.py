"""Servers that several modules start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mooring.testing.zookeeper import ZooKeeperEnsemble


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    """One ZooKeeper node for all tests of a module; a module that needs more has a fixture of this name."""
    with ZooKeeperEnsemble(work_dir=tmp_path_factory.mktemp("zookeeper")) as ensemble:
        yield ensemble
