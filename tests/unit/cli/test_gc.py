"""`mooring gc`: only what nobody can own any more is removed."""

import hashlib
import json

import pytest

from mooring.cli.machine import gc
from mooring.cli.main import main
from tests.unit.cli import records


def shelf(store, checkpoint, size=1000):
    """What executors keep for a checkpoint."""
    folder = store / hashlib.sha256(checkpoint.encode()).digest()[:16].hex()
    kept = folder / "0" / "3" / "default"
    kept.mkdir(parents=True)
    (kept / "000012-3a1c.sst~1000~ab~1").write_bytes(b"x" * size)
    (folder / "OWNER").write_text(checkpoint)
    return folder


def collected(store, capsys, *options):
    assert main(["gc", "--json", "--local-store", str(store), *options]) == 0
    result = json.loads(capsys.readouterr().out)
    return result, {entry["directory"]: entry["result"] for entry in result["directories"]}


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


def test_a_checkpoint_that_is_gone_leaves_nothing(store, tmp_path, capsys):
    gone = shelf(store, f"file:{tmp_path}/gone")
    result, _ = collected(store, capsys)
    assert not gone.exists()
    assert result["bytes-removed"] == 1000 + len(f"file:{tmp_path}/gone")


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "{}"])
def test_a_checkpoint_that_is_there_keeps_its_files(form, store, tmp_path, capsys):
    checkpoint = tmp_path / "check points" / "q#1"
    checkpoint.mkdir(parents=True)
    uri = form.format(str(checkpoint).replace(" ", "%20").replace("#", "%23"))
    kept = shelf(store, uri)
    result, verdicts = collected(store, capsys)
    assert verdicts == {kept.name: "kept"} and kept.exists() and result["bytes-removed"] == 0
    checkpoint.rmdir()
    assert collected(store, capsys)[1] == {kept.name: "removed"} and not kept.exists()


def test_a_dry_run_removes_nothing_and_says_what_it_would(store, tmp_path, capsys):
    shelf(store, f"file:{tmp_path}/gone")
    before = records.files_of(store)
    result, verdicts = collected(store, capsys, "--dry-run")
    assert set(verdicts.values()) == {"removable"} and result["bytes-removed"] == 0 < result["bytes-removable"]
    assert main(["gc", "--dry-run", "--local-store", str(store)]) == 0
    assert "would remove" in capsys.readouterr().out
    assert records.files_of(store) == before


@pytest.mark.parametrize(
    "checkpoint", ["s3a://bucket/gone", "hdfs://name/gone", "file://other-host/gone", "abfss:x", ""]
)
def test_what_is_elsewhere_is_not_checked_and_stays(checkpoint, store, capsys):
    folder = shelf(store, checkpoint)
    assert set(collected(store, capsys)[1].values()) <= {"not checked", "not ours"}
    assert folder.exists()
    assert main(["gc", "--local-store", str(store)]) == 0
    assert folder.name in capsys.readouterr().out


def test_a_directory_without_an_owner_stays_and_is_reported(store, tmp_path, capsys):
    folder = shelf(store, f"file:{tmp_path}/gone")
    (folder / "OWNER").unlink()
    assert collected(store, capsys)[1] == {folder.name: "not ours"}
    assert folder.exists()


def test_an_owner_that_does_not_fit_the_directory_stays_and_is_reported(store, tmp_path, capsys):
    folder = shelf(store, f"file:{tmp_path}/gone")
    (folder / "OWNER").write_text(f"file:{tmp_path}/other")
    assert collected(store, capsys)[1] == {folder.name: "not ours"}
    assert folder.exists()


def test_strangers_in_the_store_are_left_alone(store, tmp_path, capsys):
    (store / ".sweep").write_text("")
    (store / "notes").mkdir()
    (store / "notes" / "OWNER").write_text(f"file:{tmp_path}/gone")
    (tmp_path / "elsewhere").mkdir()
    shelf(tmp_path / "elsewhere", f"file:{tmp_path}/gone")
    (store / gc.key_of(f"file:{tmp_path}/gone")).symlink_to(tmp_path / "elsewhere" / gc.key_of(f"file:{tmp_path}/gone"))
    before = records.files_of(tmp_path)
    assert collected(store, capsys)[1] == {"notes": "not ours"}
    assert records.files_of(tmp_path) == before


def test_the_key_is_the_one_that_executors_use():
    # echo -n file:/checkpoints/clicks | sha256sum | cut -c1-32
    assert gc.key_of("file:/checkpoints/clicks") == hashlib.sha256(b"file:/checkpoints/clicks").hexdigest()[:32]


def test_a_store_that_is_not_there_is_named_with_the_nearest(store, capsys):
    assert main(["gc", "--local-store", str(store) + "s"]) == 2
    assert f"nearest: {store}" in capsys.readouterr().err


def test_the_store_is_that_of_the_executors_unless_named(store, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MOORING_LOCAL_STORE_DIR", str(store))
    shelf(store, f"file:{tmp_path}/gone")
    assert main(["gc"]) == 0
    assert f"{store}: 1 directory, 1 removed" in capsys.readouterr().out
    monkeypatch.delenv("MOORING_LOCAL_STORE_DIR")
    monkeypatch.setattr(gc, "default_directory", lambda: tmp_path / "never made")
    assert main(["gc"]) == 0
    assert "0 directories" in capsys.readouterr().out
