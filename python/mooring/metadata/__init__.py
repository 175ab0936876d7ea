from importlib import import_module
from typing import TYPE_CHECKING, Any

from mooring.metadata.file import FileMetadataStore
from mooring.metadata.kafka import KafkaMetadataStore
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.memory import MemoryMetadataStore
from mooring.metadata.namespaced import NamespacedMetadataStore
from mooring.metadata.open import open_metadata_store
from mooring.metadata.store import MAX_VALUE_BYTES, MetadataStore
from mooring.metadata.tree import FileEntry, FileTree, Unreadable

if TYPE_CHECKING:
    from mooring.metadata.zookeeper import ZkMetadataStore

__all__ = [
    "MAX_VALUE_BYTES",
    "FileEntry",
    "FileMetadataStore",
    "FileTree",
    "KafkaMetadataStore",
    "LocalFileTree",
    "MemoryMetadataStore",
    "MetadataStore",
    "NamespacedMetadataStore",
    "Unreadable",
    "ZkMetadataStore",
    "open_metadata_store",
]

_LOADED_AT_FIRST_USE = {"ZkMetadataStore": "mooring.metadata.zookeeper"}


def __getattr__(name: str) -> Any:
    """Import `ZkMetadataStore` at its first use, so that nobody else needs kazoo."""
    if name not in _LOADED_AT_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_AT_FIRST_USE[name]), name)
