"""A file that must not be there is made by one writer only."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mooring.errors import MetadataStoreUnavailable
from mooring.metadata import LocalFileTree


@pytest.fixture
def tree(tmp_path: Path) -> LocalFileTree:
    return LocalFileTree(str(tmp_path / "records"))


def test_the_first_makes_it_with_its_directory_and_the_second_changes_nothing(
    tree: LocalFileTree, tmp_path: Path
) -> None:
    assert tree.create("one", b"first")
    assert not tree.create("one", b"second")
    assert tree.read("one", 100) == b"first"
    assert [entry.name for entry in tree.list()] == ["one"]
    assert (tmp_path / "records").stat().st_mode & 0o777 == 0o700


def test_where_there_are_no_hard_links_it_is_made_all_the_same(
    tree: LocalFileTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert tree.create("one", b"first")
    assert not tree.create("one", b"second")
    assert tree.read("one", 100) == b"first"
    assert [entry.name for entry in tree.list()] == ["one"]


def test_where_nothing_can_be_written_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MetadataStoreUnavailable, match="file/records"):
        LocalFileTree(str(tmp_path / "file" / "records")).create("one", b"")
