"""The first line of an archive's metadata, which each line of Spark wants to be its own."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

OTHERS = {"000008.log": b"", "MANIFEST-000005": bytes(range(256)) * 500, "CURRENT": b"MANIFEST-000005\n"}


@pytest.fixture(scope="module")
def header(jvm: Any) -> Any:
    return scala_object(jvm, "io.mooring.localstore.ArchiveHeader")


def archive(metadata: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in {**OTHERS, "metadata": metadata}.items():
            writer.writestr(name, content)
    return packed.getvalue()


def content(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize(("has", "wanted"), [(b"v2", 1), (b"v1", 2)])
def test_only_the_line_changes(has: bytes, wanted: int, header: Any) -> None:
    rest = '\n{"sstFiles":[],"numKeys":3,"name":"é"}'.encode()
    changed = bytes(header.withVersion(archive(has + rest), wanted))
    assert content(changed) == {**OTHERS, "metadata": f"v{wanted}".encode() + rest}


@pytest.mark.parametrize(
    "unchanged",
    [
        pytest.param(archive(b"v1\n{}"), id="it has this line"),
        pytest.param(archive(b"v2\n{}")[:-3000], id="it is cut off"),
        pytest.param(b"no archive", id="it is no archive"),
        pytest.param(b"", id="it is empty"),
    ],
)
def test_else_it_is_the_same_to_the_byte(unchanged: bytes, header: Any) -> None:
    assert bytes(header.withVersion(unchanged, 1)) == unchanged
