"""Lists the state stores of a checkpoint and the files of each.

Below `state/<operator>/<partition>` a store has archives and changelogs. They are named `<version>_<unique id>.zip` and
`.changelog`, without the id in format v1. The directories `SSTs` and `logs` have the files that archives name. The
default store lies in the partition's own directory. Each other store lies in a directory with its name.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from mooring.errors import CheckpointError, CheckpointNotUnderstood

STATE: Final = "state"
DEFAULT_STORE: Final = "default"

_GLOBAL_LIMIT: Final = "globalLimit"
_AGGREGATION: Final = "stateStoreSave"

_VERSION_FILE: Final = re.compile(r"(\d+)(?:_([0-9A-Za-z-]+))?\.(zip|changelog)")
_NEWEST_DESCRIPTION: Final = 2
_NEWEST_ARCHIVE: Final = 2
_KEPT_IN: Final = {"sstFiles": ("dfsSstFileName", "SSTs"), "logFiles": ("dfsLogFileName", "logs")}


@dataclass(frozen=True, slots=True)
class VersionFile:
    """An archive (`zip`) or a changelog of one version; `id` is None in format v1."""

    version: int
    id: str | None
    kind: str

    @property
    def name(self) -> str:
        """The file's name in the store's directory."""
        stem = str(self.version) if self.id is None else f"{self.version}_{self.id}"
        return f"{stem}.{self.kind}"

    @staticmethod
    def parse(name: str) -> VersionFile | None:
        """The file with this name; None for a file of another kind."""
        found = _VERSION_FILE.fullmatch(name)
        return None if found is None else VersionFile(int(found[1]), found[2], found[3])


@dataclass(frozen=True, slots=True)
class Archive:
    """The content of an archive.

    `needs` are the files that the archive names: path below the store's directory, and bytes. `keys` is the number of
    keys of the store in this version, None where they were not counted.
    """

    needs: Mapping[str, int]
    keys: int | None


@dataclass(frozen=True)
class StateStore:
    """One state store, with its files as they were at the first listing."""

    operator: int
    partition: int
    name: str
    directory: Path

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """Name to bytes of the files in the store's directory itself; empty where there is no directory."""
        return dict(_files_in(self.directory))

    @cached_property
    def files(self) -> frozenset[VersionFile]:
        """The archives and changelogs."""
        return frozenset(one for name in self.sizes if (one := VersionFile.parse(name)) is not None)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Files of an unknown kind: another provider or a newer Spark may have written them."""
        names = (name.removesuffix(".crc") for name in self.sizes)
        return tuple(sorted(name for name in names if VersionFile.parse(name) is None))

    @cached_property
    def immutable_sizes(self) -> Mapping[str, int]:
        """Path below the store's directory to bytes, of the files that archives can name."""
        return {
            f"{folder}/{name}": size for folder in ("SSTs", "logs") for name, size in _files_in(self.directory / folder)
        }

    @cached_property
    def _opened(self) -> dict[VersionFile, Archive]:
        return {}

    def archive(self, file: VersionFile) -> Archive:
        """The content of an archive, which is read once. CheckpointError when it is damaged or not understood."""
        if file not in self._opened:
            self._opened[file] = _read_archive(self.directory / file.name)
        return self._opened[file]

    def __str__(self) -> str:
        store = "" if self.name == DEFAULT_STORE else f", store {self.name}"
        return f"operator {self.operator}, partition {self.partition}{store}"


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator by its description: Spark's name for its kind, and each store with its partition count."""

    id: int
    kind: str
    stores: tuple[tuple[str, int], ...]


def operators_in(checkpoint: Path, batch: int | None = None) -> tuple[Operator, ...]:
    """The stateful operators as of a batch, or by their newest descriptions; none for a query without state.

    CheckpointError when a description can not be read. CheckpointNotUnderstood when an operator has no description, or
    one of a newer form.
    """
    directory = checkpoint / STATE
    if not directory.is_dir():
        return ()
    numbers = sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())
    return tuple(_operator(directory / str(number), number, batch) for number in numbers)


def has_one_partition(checkpoint: Path, operator: Operator) -> bool:
    """Whether the operator has state in its first partition alone: a global limit, or an aggregation without a key.

    The first partition has the schema of an aggregation's state. False where that schema can not be read.
    """
    if operator.kind != _AGGREGATION:
        return operator.kind == _GLOBAL_LIMIT
    try:
        schema = (checkpoint / STATE / str(operator.id) / "0" / "_metadata" / "schema").read_bytes()
        return not json.loads(_key_schema(schema))["fields"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _key_schema(schema: bytes) -> str:
    """The key's schema: the first of two texts after the version.

    Java writes two bytes of length before each text. In v2 the key's schema is cut into pieces, after their number.
    """

    def text(at: int) -> tuple[str, int]:
        end = at + 2 + int.from_bytes(schema[at : at + 2], "big")
        return schema[at + 2 : end].decode(errors="replace"), end

    version, at = text(0)
    if version == "v1":
        return text(at)[0]
    if version != "v2":
        raise ValueError(f"the schema is of version {version}")
    pieces, at = int.from_bytes(schema[at : at + 4], "big"), at + 4
    key = ""
    for _ in range(min(pieces, len(schema))):
        piece, at = text(at)
        key += piece
    return key


def stores_of(checkpoint: Path, operators: tuple[Operator, ...], partitions: int | None) -> tuple[StateStore, ...]:
    """All state stores of these operators, whether or not they have files yet.

    `partitions` is the number in the offset log, which Spark uses; None where the log does not have it. Then the
    numbers in the descriptions are used. A repartition does not change the number in a description of the first form.
    """
    return tuple(
        StateStore(operator.id, partition, name, _directory(checkpoint, operator.id, partition, name))
        for operator in operators
        for name, described in operator.stores
        for partition in range(described if partitions is None else partitions)
    )


def _operator(directory: Path, number: int, batch: int | None) -> Operator:
    file = directory / "_metadata" / "metadata"
    later = directory / "_metadata" / f"v{_NEWEST_DESCRIPTION}"
    newer = sorted(path for path in directory.glob("_metadata/v*") if _version(path.name) > _NEWEST_DESCRIPTION)
    if newer:
        raise CheckpointNotUnderstood(f"{newer[0]} describes operator {number}; known is {later.name}")
    if later.is_dir():
        batches = sorted(int(path.name) for path in later.iterdir() if path.name.isdigit())
        known = [number for number in batches if batch is None or number <= batch + 1]  # of the next batch, at most
        if known:
            file = later / str(known[-1])
    try:
        version, _, text = file.read_text(encoding="utf-8").partition("\n")
        if _version(version) > _NEWEST_DESCRIPTION:
            raise CheckpointNotUnderstood(f"{file} is of version {version}; known is {later.name}")
        form = json.loads(text)
        stores = tuple(
            (str(described["storeName"]), int(described["numPartitions"])) for described in form["stateStoreInfo"]
        )
        return Operator(number, str(form["operatorInfo"]["operatorName"]), stores)
    except FileNotFoundError as fault:
        raise CheckpointNotUnderstood(f"{file} is not there, which describes operator {number}") from fault
    except PermissionError as fault:
        raise CheckpointNotUnderstood(f"{file} may not be read: {fault.strerror}") from fault
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CheckpointError(f"{file} does not describe the operator {number}: {fault}") from fault


def _version(text: str) -> int:
    """The number of `v2`; 0 where it is no version."""
    return int(text[1:]) if text[:1] == "v" and text[1:].isdigit() else 0


def _read_archive(file: Path) -> Archive:
    try:
        with zipfile.ZipFile(file) as opened:
            version, _, text = opened.read("metadata").decode().partition("\n")
        if _version(version) > _NEWEST_ARCHIVE:
            raise CheckpointNotUnderstood(f"{file} is of version {version}; known is v{_NEWEST_ARCHIVE}")
        form = json.loads(text)
        needs = {
            f"{folder}/{file_entry[key]}": int(file_entry["sizeBytes"])
            for kind, (key, folder) in _KEPT_IN.items()
            for file_entry in form.get(kind) or ()
        }
        keys = int(form.get("numKeys", -1))
        return Archive(needs, keys if keys >= 0 else None)
    except PermissionError as fault:
        raise CheckpointNotUnderstood(f"{file} may not be read: {fault.strerror}") from fault
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError) as fault:
        raise CheckpointError(f"{file} can not be read: {fault}") from fault


def _directory(checkpoint: Path, operator: int, partition: int, store: str) -> Path:
    of_partition = checkpoint / STATE / str(operator) / str(partition)
    return of_partition if store == DEFAULT_STORE else of_partition / store


def _files_in(directory: Path) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_file() and not entry.name.startswith("."):
                    yield entry.name, entry.stat().st_size
    except FileNotFoundError:
        return  # nothing was ever written there, or it is lost: the version is then reported as missing
    except OSError as fault:
        raise CheckpointNotUnderstood(f"{directory} can not be listed: {fault.strerror}") from fault
