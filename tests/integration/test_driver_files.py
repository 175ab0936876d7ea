"""A directory that is reached through the driver: one of two writers makes a file that must not be there."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.metadata import FileMetadataStore
from mooring.metadata.owned_tree import OwnedTree
from mooring.metadata.owners import Claim, Owner
from mooring.spark.hadoop_tree import HadoopFileTree
from tests.integration.support.application_in_one_jvm import application

pytestmark = [pytest.mark.one_jvm, pytest.mark.heavy]


def test_two_applications_keep_apart_in_storage_that_only_the_driver_reaches(tmp_path: Path) -> None:
    with application("driver files", tmp_path) as spark:
        place = f"file:{tmp_path}/records"
        tree = HadoopFileTree(spark._jvm, place)
        assert tree.create("one", b"first")
        assert not tree.create("one", b"second")
        assert tree.read("one", 100) == b"first"

        told: list[tuple[str, Claim | None]] = []
        for number in (1, 2):
            owner = Owner(f"app-{number}", "host", (f"ckpt-{number}",))
            owned = OwnedTree(
                lambda at: HadoopFileTree(spark._jvm, at), place, owner, lambda *one: told.append(one), print
            )
            FileMetadataStore(owned).put("status", b"mine")
        assert [where for where, _ in told] == [place, f"{place}/application-2"]
