"""The volume that a local store lies on: its name, and its rights after Kubernetes has mounted it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.one_jvm


def store_at(jvm: Any, root: Path, is_on_own_volume: bool = True) -> Any:
    """The store at this directory, or None where it can not be used."""
    found = jvm.io.mooring.localstore.HostStore.open(jvm.java.io.File(str(root)).toPath(), is_on_own_volume)
    return found.get() if found.isDefined() else None


def volume_of(store: Any) -> str | None:
    found = store.volume()
    return str(found.toOption().get()) if found.isRight() else None


def test_the_first_executor_names_the_volume_and_later_ones_read_the_name(jvm: Any, tmp_path: Path) -> None:
    named = volume_of(store_at(jvm, tmp_path / "store"))
    assert named is not None and re.fullmatch("volume-[0-9a-f]{8}", named)
    assert volume_of(store_at(jvm, tmp_path / "store")) == named
    assert volume_of(store_at(jvm, tmp_path / "other")) not in (None, named)
    assert (tmp_path / "store" / ".volume").read_text() == f"{named}\n"
    assert not list((tmp_path / "store").glob(".writing-*"))


@pytest.mark.parametrize("text", ["", "\n", "two words\n", "/a/path\n"])
def test_a_file_that_is_damaged_names_no_volume(jvm: Any, tmp_path: Path, text: str) -> None:
    store = store_at(jvm, tmp_path / "store")
    (tmp_path / "store" / ".volume").write_text(text)
    assert volume_of(store) is None


@pytest.mark.parametrize(
    ("mode", "is_on_own_volume", "is_used"),
    [(0o700, False, True), (0o2770, True, True), (0o2770, False, False), (0o2775, True, False), (0o777, True, False)],
)
def test_a_volume_that_kubernetes_opened_to_the_pods_group_is_used_and_closed(
    jvm: Any, tmp_path: Path, mode: int, is_on_own_volume: bool, is_used: bool
) -> None:
    """Kubernetes does so at each mount, where the pod has an `fsGroup`."""
    root = tmp_path / "store"
    root.mkdir()
    (root / "a file").write_text("of the last run")
    root.chmod(mode)
    assert (store_at(jvm, root, is_on_own_volume) is not None) == is_used
    assert (root.stat().st_mode & 0o777 == 0o700) == is_used
