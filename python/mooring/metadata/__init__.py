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

_WHERE = {"ZkMetadataStore": "mooring.metadata.zookeeper"}


def __getattr__(name: str) -> Any:
    """Load what needs a client library only when it is asked for."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)
