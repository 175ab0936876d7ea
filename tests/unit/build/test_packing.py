"""The same content gives the same archive."""

import io
import zipfile

import pytest

from tests.unit.build.shim import packing


def names_in(archive: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(archive)).namelist()


def test_the_order_of_entries_does_not_matter():
    entries = {"b/B.class": b"2", "a/A.class": b"1", packing.MANIFEST: b"m"}
    assert packing.packed(entries) == packing.packed(dict(reversed(entries.items())))


def test_the_manifest_comes_first_and_the_rest_by_name():
    archive = packing.packed({"B": b"", "A": b"", packing.MANIFEST: b"m", "META-INF/LICENSE": b""})
    assert names_in(archive) == [packing.MANIFEST, "A", "B", "META-INF/LICENSE"]


def test_no_entry_carries_the_time_or_the_rights_of_this_machine():
    (entry,) = zipfile.ZipFile(io.BytesIO(packing.packed({"A": b"1"}))).infolist()
    assert entry.date_time == (1980, 1, 1, 0, 0, 0)
    assert entry.external_attr >> 16 == 0o100644


def test_content_comes_out_as_it_went_in():
    content = bytes(range(256)) * 100
    assert zipfile.ZipFile(io.BytesIO(packing.packed({"A": content}))).read("A") == content


def test_compiled_python_is_no_source(tmp_path):
    (tmp_path / "p/__pycache__").mkdir(parents=True)
    (tmp_path / "p/__pycache__/a.cpython-310.pyc").write_bytes(b"")
    (tmp_path / "p/a.py").write_text("")
    assert list(packing.files_under(tmp_path)) == ["p/a.py"]


def test_a_folder_that_is_not_there_has_no_files(tmp_path):
    assert packing.files_under(tmp_path / "none") == {}


def test_a_manifest_is_lines_that_java_reads():
    assert packing.manifest({"Implementation-Version": "1.2"}) == (
        b"Manifest-Version: 1.0\r\nImplementation-Version: 1.2\r\n\r\n"
    )


def test_a_manifest_line_that_java_would_want_split_is_refused():
    with pytest.raises(ValueError, match="longer than 72"):
        packing.manifest({"Implementation-Title": "x" * 60})
