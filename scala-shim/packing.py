"""Archives that come out byte for byte the same from the same content, whenever and wherever they are packed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

MANIFEST = "META-INF/MANIFEST.MF"
_FIRST_DAY_OF_ZIP = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16
_LONGEST_MANIFEST_LINE = 72


def files_under(folder: Path, pattern: str = "**/*") -> dict[str, Path]:
    """The files below `folder` by their path inside it, in order; compiled Python is left out. Empty for no folder."""
    found = {p.relative_to(folder).as_posix(): p for p in folder.glob(pattern) if p.is_file()}
    return {name: found[name] for name in sorted(found) if "__pycache__" not in found[name].parts}


def packed(entries: Mapping[str, bytes]) -> bytes:
    """A zip or jar of `entries`: the manifest first, as Java wants it, the rest by name; no clock, no user, no umask.

    Stored, not compressed: what a compressor makes of the same bytes differs from one version of it to the next.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries, key=lambda name: (name != MANIFEST, name)):
            entry = zipfile.ZipInfo(name, _FIRST_DAY_OF_ZIP)
            entry.create_system = 3
            entry.external_attr = _PLAIN_FILE
            archive.writestr(entry, entries[name])
    return buffer.getvalue()


def manifest(attributes: Mapping[str, str]) -> bytes:
    """The text of a jar's manifest. ValueError for a line that Java would want split; ours are short."""
    lines = ["Manifest-Version: 1.0", *(f"{name}: {value}" for name, value in attributes.items())]
    for line in lines:
        if len(line.encode()) > _LONGEST_MANIFEST_LINE:
            raise ValueError(f"longer than {_LONGEST_MANIFEST_LINE} bytes, the most of a manifest line: {line}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
