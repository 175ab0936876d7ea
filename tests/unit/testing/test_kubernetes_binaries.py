"""What is said when the API server of Kubernetes can not be built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.errors import ClusterError
from mooring.testing.kubernetes_binaries import ETCD_VERSION, KUBERNETES_VERSION, etcd, kube_apiserver


@pytest.fixture(autouse=True)
def bin_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GOROOT", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def fake_go(directory: Path, version: str, then: str = "exit 1") -> None:
    go = directory / "go"
    go.write_text(f'#!/bin/sh\nif [ "$1" = env ]; then echo {version}; exit; fi\n{then}\n')
    go.chmod(0o755)


def test_without_go_it_is_said_what_is_missing(tmp_path) -> None:
    with pytest.raises(ClusterError, match=r"no `go` on PATH.*Go 1\.24 or later"):
        etcd(tmp_path / "cache")


def test_an_old_go_is_named(tmp_path, bin_directory) -> None:
    fake_go(bin_directory, "go1.9.7")
    with pytest.raises(ClusterError, match=r"go1\.9\.7: Go 1\.24 or later"):
        kube_apiserver(tmp_path / "cache")


def test_a_failed_build_shows_its_output_and_leaves_nothing(tmp_path, bin_directory) -> None:
    fake_go(bin_directory, "go1.26.1", "echo no such module >&2; exit 1")
    with pytest.raises(ClusterError, match="no such module"):
        etcd(tmp_path / "cache")
    assert not [each for each in os.listdir(tmp_path / "cache") if not each.endswith(".lock")]


def test_what_is_built_is_not_built_again(tmp_path, bin_directory) -> None:
    fake_go(bin_directory, "go1.26.1", 'while [ "$1" != -o ]; do shift; done; echo built > "$2"')
    built = etcd(tmp_path / "cache")
    assert built == tmp_path / "cache" / f"etcd-{ETCD_VERSION}" / "etcd"
    assert built.read_text() == "built\n"
    (bin_directory / "go").unlink()
    assert etcd(tmp_path / "cache") == built


def test_the_servers_fit_each_other() -> None:
    assert KUBERNETES_VERSION.startswith("1.34.") and tuple(map(int, ETCD_VERSION.split("."))) >= (3, 6)
