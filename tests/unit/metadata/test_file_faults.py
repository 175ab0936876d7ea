"""What a file store makes of files that are damaged, foreign, or in the way."""

import contextlib
import errno
import os
import stat

import pytest

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable, OutcomeUnknown
from mooring.metadata import FileMetadataStore
from mooring.metadata.envelope import pack
from mooring.metadata.filename import file_name
from mooring.metadata.local_tree import LocalFileTree


@pytest.fixture
def reports():
    return []


class ReadAtOnce(LocalFileTree):
    """As an object store is read."""

    reads_at_once = 16


@pytest.fixture(params=[LocalFileTree, ReadAtOnce])
def store(request, tmp_path, reports):
    with FileMetadataStore(request.param(str(tmp_path / "m")), report=reports.append) as store:
        yield store


def path_of(tmp_path, key):
    return tmp_path / "m" / file_name(key)


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


WHOLE = pack("damaged", b"its value")
DAMAGES = {
    "emptied": b"",
    "cut to half": WHOLE[: len(WHOLE) // 2],
    "one byte short": WHOLE[:-1],
    "one byte more": WHOLE + b"!",
    "garbage": b"\0\xff" * 500,
    "somebody's JSON": b'{"version": 12}',
    "a flipped bit in the first line": flip(WHOLE, 3),
    "a flipped bit in the key": flip(WHOLE, WHOLE.index(b"damaged")),
    "a flipped bit in the value": flip(WHOLE, len(WHOLE) - 1),
    "the record of another key": pack("healthy", b"copied here"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_ignored_and_reported_once(tmp_path, store, reports, damage):
    store.put_all({"damaged": b"its value", "healthy": b"1"})
    path_of(tmp_path, "damaged").write_bytes(DAMAGES[damage])
    for _ in range(2):
        assert store.get("damaged") is None
        assert store.all() == {"healthy": b"1"}
    assert len(reports) == 1
    assert file_name("damaged") in reports[0] and str(tmp_path) in reports[0]
    assert path_of(tmp_path, "damaged").read_bytes() == DAMAGES[damage]


def test_every_truncation_of_a_record_is_recognised(tmp_path, store):
    store.put("key", b"a value")
    whole = path_of(tmp_path, "key").read_bytes()
    for size in range(len(whole)):
        path_of(tmp_path, "key").write_bytes(whole[:size])
        assert store.get("key") is None


def test_the_next_write_repairs_a_damaged_file_and_new_damage_is_reported_anew(tmp_path, store, reports):
    store.put("key", b"1")
    path_of(tmp_path, "key").write_bytes(b"")
    assert store.get("key") is None
    store.put("key", b"2")
    assert store.get("key") == b"2"
    path_of(tmp_path, "key").write_bytes(b"")
    assert store.get("key") is None
    assert len(reports) == 2


def test_a_damaged_file_can_be_deleted(tmp_path, store):
    store.put("key", b"1")
    path_of(tmp_path, "key").write_bytes(b"")
    store.delete("key")
    assert not path_of(tmp_path, "key").exists()


def test_foreign_files_are_ignored_and_reported_once(tmp_path, store, reports):
    store.put("key", b"1")
    for name in ("README", "k-UPPER.v1", "k-=41=.v1", "k-=61.v1", "k-=ff.v1", "k-x.v2", f"h-{'x' * 40}-0.v1"):
        (tmp_path / "m" / name).write_text("not ours")
    (tmp_path / "m" / f".{file_name('key')}.crc").write_text("Hadoop's")
    (tmp_path / "m" / "a directory").mkdir()
    assert store.all() == store.all() == {"key": b"1"}
    assert len(reports) == 1 and "README" in reports[0]


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "huge"])
def test_what_is_no_plain_file_holds_up_nobody(tmp_path, store, kind):
    store.put_all({"healthy": b"1", "odd": b"2"})
    odd = path_of(tmp_path, "odd")
    odd.unlink()
    if kind == "directory":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    elif kind == "link":
        odd.symlink_to(path_of(tmp_path, "healthy"))
    else:
        with odd.open("wb") as file:
            file.truncate(1 << 40)
    assert store.all() == {"healthy": b"1"}
    with pytest.raises(MetadataStoreUnavailable, match=r"k-odd\.v1"):
        store.get("odd")


def test_one_file_without_permission_holds_up_nobody(tmp_path, store, reports, monkeypatch):
    store.put_all({"healthy": b"1", "locked": b"2"})
    fail_for(monkeypatch, "open", file_name("locked"), errno.EACCES)
    assert store.all() == store.all() == {"healthy": b"1"}
    assert len(reports) == 1
    with pytest.raises(MetadataStoreUnavailable, match="Permission denied"):
        store.get("locked")


def test_a_directory_that_is_lost_while_it_is_read_is_no_empty_store(store, monkeypatch):
    store.put_all({"one": b"1", "two": b"2"})
    fail_for(monkeypatch, "open", file_name("two"), errno.ESTALE)
    fail_for(monkeypatch, "stat", "", errno.ESTALE)
    with pytest.raises(MetadataStoreUnavailable):
        store.all()


def test_a_file_in_the_place_of_the_directory_makes_the_store_unavailable(tmp_path, store):
    (tmp_path / "m").write_text("in the way")
    for call in (lambda: store.all(), lambda: store.get("k"), lambda: store.put("k", b""), lambda: store.watch(print)):
        with pytest.raises(MetadataStoreUnavailable, match=str(tmp_path)):
            call()


def test_a_directory_without_permission_makes_the_store_unavailable(tmp_path, store):
    store.put("key", b"1")
    (tmp_path / "m").chmod(0)
    try:
        if os.access(tmp_path / "m", os.R_OK):
            pytest.skip("this user may read everything")
        for call in (lambda: store.all(), lambda: store.get("key"), lambda: store.put("key", b"2")):
            with pytest.raises(MetadataStoreUnavailable, match="Permission denied"):
                call()
    finally:
        (tmp_path / "m").chmod(0o700)


def test_a_directory_that_may_not_be_listed_makes_the_store_unavailable(tmp_path, store, monkeypatch):
    store.put("key", b"1")
    fail_for(monkeypatch, "scandir", str(tmp_path), errno.EACCES)
    with pytest.raises(MetadataStoreUnavailable, match="Permission denied"):
        store.all()


@pytest.mark.parametrize("call", ["scandir", "open", "fsync", "replace", "unlink", "mkdir"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES, errno.ESTALE, errno.EDQUOT])
def test_no_error_of_the_operating_system_gets_out(tmp_path, store, monkeypatch, call, number):
    if call != "mkdir":
        store.put("key", b"1")
    fail_for(monkeypatch, call, str(tmp_path), number)
    for action in (
        lambda: store.get("key"),
        lambda: store.all(),
        lambda: store.put("key", b"2"),
        lambda: store.delete("key"),
        lambda: store.flush(),
    ):
        with contextlib.suppress(MetadataStoreError):
            action()


@pytest.mark.parametrize("call", ["open", "fsync"])
def test_a_write_that_fails_before_the_rename_changes_nothing(tmp_path, store, monkeypatch, call):
    store.put("key", b"before")
    with monkeypatch.context() as patched:
        fail_for(patched, call, "", errno.ENOSPC)
        with pytest.raises(MetadataStoreUnavailable, match="No space left"):
            store.put("key", b"after")
    assert store.get("key") == b"before"
    assert [name for name in os.listdir(tmp_path / "m") if name.startswith(".tmp-")] == []


@pytest.mark.parametrize(("number", "error"), [(errno.EIO, OutcomeUnknown), (errno.EACCES, MetadataStoreUnavailable)])
def test_a_rename_whose_reply_was_lost_is_an_unknown_outcome(tmp_path, store, monkeypatch, number, error):
    store.put("key", b"before")
    fail_for(monkeypatch, "replace", "", number)
    with pytest.raises(error) as raised:
        store.put("key", b"after")
    assert type(raised.value) is error
    assert store.get("key") == b"before"


def test_a_sync_that_fails_is_tried_again_by_the_next_flush(tmp_path, store, monkeypatch):
    store.put("key", b"1")
    with monkeypatch.context() as patched:
        fail_for(patched, "fsync", "", errno.EIO)
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                store.flush()
    store.flush()


def test_only_the_owner_may_read(tmp_path, store):
    store.put("first", b"1")
    store.put("second", b"2")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o700
    for key in ("first", "second"):
        assert stat.S_IMODE(path_of(tmp_path, key).stat().st_mode) == 0o600


def test_a_directory_that_is_there_keeps_its_mode(tmp_path, store):
    (tmp_path / "m").mkdir(mode=0o750)
    store.put("key", b"1")
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o750


def test_reading_makes_no_directory(tmp_path, store):
    assert store.get("key") is None
    assert store.all() == {}
    store.delete("key")
    assert not (tmp_path / "m").exists()


def test_a_directory_that_was_removed_is_made_again(tmp_path, store):
    store.put("key", b"1")
    path_of(tmp_path, "key").unlink()
    (tmp_path / "m").rmdir()
    store.put("key", b"2")
    assert store.get("key") == b"2"


def test_what_a_dead_writer_left_is_ignored_and_removed_when_it_is_old(tmp_path, reports):
    directory = tmp_path / "m"
    directory.mkdir()
    old, young = directory / ".tmp-old", directory / ".tmp-young"
    for leftover, written in ((old, 10_000.0), (young, 13_000.0)):
        leftover.write_bytes(WHOLE[:20])
        os.utime(leftover, (written, written))
    with FileMetadataStore(str(directory), report=reports.append, now=lambda: 14_000.0) as store:
        assert store.all() == {}
        assert old.exists()
        store.put("key", b"1")
        assert not old.exists() and young.exists()
        assert store.all() == {"key": b"1"}
    assert reports == []


def fail_for(monkeypatch, call, part, number):
    """Make `os.<call>` fail for paths that contain `part`; calls on descriptors always fail."""
    real = getattr(os, call)

    def failing(path, *rest, **named):
        if isinstance(path, int) or part in os.fspath(path):
            raise OSError(number, os.strerror(number))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, call, failing)
