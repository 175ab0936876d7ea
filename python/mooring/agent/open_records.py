"""The records of a job, for those who read them: the client, from any machine."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.agent.records import Records
from mooring.metadata import open_metadata_store
from mooring.metadata.store import Report


def open_records(place: str, options: Mapping[str, str], report: Report) -> Records:
    """The records in a store; as `open_metadata_store`, and with its errors."""
    store = open_metadata_store(place, report=report, **options)
    if place.partition("://")[0].lower() != "zk":
        return Records(store, report)
    from mooring.agent.zookeeper_records import ZkRecords
    from mooring.metadata.zookeeper.connection import ZkConnection
    from mooring.metadata.zookeeper.options import settings_from

    settings = settings_from(place, options)
    return ZkRecords(store, report, ZkConnection(settings), settings.root)
