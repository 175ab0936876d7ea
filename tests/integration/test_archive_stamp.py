"""The stamp of a snapshot archive: the first row of its metadata. Spark reads only archives with its own stamp."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import pytest

from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

OTHERS = {"000008.log": b"", "MANIFEST-000005": bytes(range(256)) * 500, "CURRENT": b"MANIFEST-000005\n"}


@pytest.fixture(scope="module")
def stamps(jvm: Any) -> Any:
    return scala_object(jvm, "io.mooring.localstore.ArchiveStamp")


def archive(metadata: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as writer:
        for name, content in {**OTHERS, "metadata": metadata}.items():
            writer.writestr(name, content)
    return packed.getvalue()


def content(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


@pytest.mark.parametrize(("has", "wanted"), [(b"v2", "v1"), (b"v1", "v2")])
def test_only_the_stamp_changes(has: bytes, wanted: str, stamps: Any) -> None:
    rest = '\n{"sstFiles":[],"numKeys":3,"name":"é"}'.encode()
    changed = bytes(stamps.withStamp(archive(has + rest), wanted))
    assert content(changed) == {**OTHERS, "metadata": wanted.encode() + rest}


@pytest.mark.parametrize(
    "unchanged",
    [
        pytest.param(archive(b"v1\n{}"), id="it has this stamp"),
        pytest.param(archive(b"v3\n{}"), id="its stamp is not known"),
        pytest.param(archive(b"")[:-9], id="its metadata is empty"),
        pytest.param(archive(b"v2\n{}")[:-3000], id="it is cut off"),
        pytest.param(b"no archive", id="it is no archive"),
        pytest.param(b"", id="it is empty"),
    ],
)
def test_else_it_is_the_same_to_the_byte(unchanged: bytes, stamps: Any) -> None:
    assert bytes(stamps.withStamp(unchanged, "v1")) == unchanged
