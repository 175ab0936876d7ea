"""Opens the store that `spark.mooring.metadata`, `--metadata` or `MOORING_METADATA` names."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping

from mooring.errors import InvalidSettingError, MetadataStoreError, nearest
from mooring.metadata.file import FileMetadataStore
from mooring.metadata.kafka import open_kafka_store
from mooring.metadata.memory import MemoryMetadataStore
from mooring.metadata.store import MetadataStore, Report, report_to_log
from mooring.settings.notation import parse_duration_ms

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")

Opener = Callable[[str, Report, Mapping[str, str]], MetadataStore]


def open_metadata_store(uri: str, *, report: Report = report_to_log, **options: str) -> MetadataStore:
    """Open the store that a text names: a directory, a `file:` URI, zk://, kafka://, or `memory://name` (one process).

    `options` are the settings below `spark.mooring.metadata.`, without this prefix. The file store has `poll.interval`.
    `mooring.metadata.zookeeper.options` lists those of ZooKeeper. The Kafka store passes all but its own to librdkafka.
    `report` is called once for each record that is ignored, with a sentence. Nothing is read or written yet.

    MetadataStoreError where the text names no store that can be opened here; its message says what to use instead.
    InvalidSettingError for an option that the store does not have.
    """
    if not uri.strip():
        raise MetadataStoreError("no metadata store is named: give a directory that driver and clients share")
    match = _SCHEME.match(uri)
    scheme = match[1].lower() if match else ""
    opener = _OPENERS.get(scheme)
    if opener is None:
        raise MetadataStoreError(_instead_of(scheme, uri))
    return opener(uri, report, options)


def _open_directory(uri: str, report: Report, options: Mapping[str, str]) -> MetadataStore:
    _refuse_unknown_options("file", options, {"poll.interval"})
    interval = options.get("poll.interval", "1s")
    try:
        poll_seconds = parse_duration_ms(interval) / 1000
    except ValueError:
        raise InvalidSettingError(f"metadata.poll.interval={interval}: expected a duration, such as 1s") from None
    return FileMetadataStore(_directory_of(uri), poll_seconds=max(poll_seconds, 0.01), report=report)


def _open_memory(uri: str, report: Report, options: Mapping[str, str]) -> MetadataStore:
    _refuse_unknown_options("memory", options, set())
    return MemoryMetadataStore(uri.partition(":")[2].strip("/"), report=report)


def _open_zookeeper(uri: str, report: Report, options: Mapping[str, str]) -> MetadataStore:
    require_zookeeper(uri)
    from mooring.metadata.zookeeper import ZkMetadataStore, settings_from

    return ZkMetadataStore(settings_from(uri, options), report=report)


def require_zookeeper(uri: str) -> None:
    """MetadataStoreError where kazoo is not installed; its message says how to install it."""
    try:
        importlib.import_module("mooring.metadata.zookeeper")
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != "kazoo":
            raise
        raise MetadataStoreError(
            f"{uri.partition(':')[0]}: stores need the package kazoo: pip install 'mooring[zookeeper]'"
        ) from missing


_OPENERS: Mapping[str, Opener] = {
    "": _open_directory,
    "file": _open_directory,
    "kafka": open_kafka_store,
    "memory": _open_memory,
    "zk": _open_zookeeper,
}


_STORAGE = frozenset(
    (
        *("abfs", "abfss", "adl", "cos", "cosn", "dbfs", "gs", "hdfs", "lakefs", "o3fs", "obs", "ofs", "oss"),
        *("s3", "s3a", "s3n", "swebhdfs", "swift", "viewfs", "wasb", "wasbs", "webhdfs"),
    )
)
"""Schemes of storage that holds checkpoints. Only the job reaches it, through Hadoop, with its own credentials."""

_ALL_SCHEMES = sorted({*_OPENERS, *_STORAGE} - {""})


def _directory_of(uri: str) -> str:
    """The path as Hadoop reads it, so that agent and client use the same directory: `%20` stays three characters."""
    if _SCHEME.match(uri) is None:
        return uri
    path = uri.partition(":")[2]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host:
            raise MetadataStoreError(
                f"{uri} names the host {host}; a file: URI of this machine has three slashes: file:///path"
            )
        path = slash + rest
    if not path.startswith("/"):
        raise MetadataStoreError(f"{uri} names no absolute path; write file:///path")
    return path


def _instead_of(scheme: str, uri: str) -> str:
    if scheme == "zookeeper":
        return f"{uri}: expected zk://host:port,host:port/root"
    if scheme in _STORAGE:
        return (
            f"{uri}: a client does not reach {scheme}: storage, only the job does; set spark.mooring.metadata to a"
            " directory that is mounted here as well, to zk://… or to kafka://…"
        )
    return (
        f"{uri}: there is no store {scheme}:; expected a directory, zk://… or kafka://…{nearest(scheme, _ALL_SCHEMES)}"
    )


def _refuse_unknown_options(store: str, options: Mapping[str, str], known: set[str]) -> None:
    for name in sorted(set(options) - known):
        knows = f"it knows {', '.join(sorted(known))}" if known else "it has none"
        raise InvalidSettingError(
            f"the {store} metadata store has no option {name!r} (spark.mooring.metadata.{name}); {knows}"
        )
