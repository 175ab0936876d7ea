from mooring.metadata.file import FileMetadataStore
from mooring.metadata.kafka import KafkaMetadataStore
from mooring.metadata.local_tree import LocalFileTree
from mooring.metadata.memory import MemoryMetadataStore
from mooring.metadata.namespaced import NamespacedMetadataStore
from mooring.metadata.open import open_metadata_store
from mooring.metadata.store import MAX_VALUE_BYTES, MetadataStore
from mooring.metadata.tree import FileEntry, FileTree, Unreadable

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
    "open_metadata_store",
]
