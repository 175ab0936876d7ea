from mooring.metadata.zookeeper.connection import ZkConnection
from mooring.metadata.zookeeper.options import ZkSettings, settings_from
from mooring.metadata.zookeeper.store import ZkMetadataStore

__all__ = ["ZkConnection", "ZkMetadataStore", "ZkSettings", "settings_from"]
