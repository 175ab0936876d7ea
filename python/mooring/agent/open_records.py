"""The records of a job, for those who read them: the client, from any machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mooring.agent.records import Records
from mooring.errors import MetadataStoreError
from mooring.metadata import open_metadata_store
from mooring.metadata.store import Report

_OF_AN_APPLICATION = {"jobModels", "leader", "metadata"}

if TYPE_CHECKING:  # kazoo is there only for those who use it
    from mooring.metadata.zookeeper.connection import ZkConnection
    from mooring.metadata.zookeeper.options import ZkSettings


def open_records(place: str, options: Mapping[str, str], report: Report) -> Records:
    """The records in a store; as `open_metadata_store`, and with its errors.

    A zk:// address names the root of one application, or the root that several share, when it has only one:
    MetadataStoreError, with their names, when it has more.
    """
    if place.partition("://")[0].lower() != "zk":
        return Records(open_metadata_store(place, report=report, **options), report)
    from mooring.agent.zookeeper_records import ZkRecords
    from mooring.metadata.zookeeper import ZkMetadataStore, settings_from
    from mooring.metadata.zookeeper.connection import ZkConnection

    settings = settings_from(place, options)
    connection = ZkConnection(settings)
    try:
        settings = _of_the_application(settings, connection)
    except BaseException:
        connection.close()
        raise
    return ZkRecords(ZkMetadataStore(settings, report=report), report, connection, settings.root)


def _of_the_application(settings: ZkSettings, connection: ZkConnection) -> ZkSettings:
    """The settings with the root of the only application below this root, unless it is an application's already."""
    names = _children(connection, settings.root)
    if _OF_AN_APPLICATION & set(names):
        return settings
    below = [f"{settings.root}/{name}" for name in sorted(names)]
    applications = [root for root in below if _OF_AN_APPLICATION & set(_children(connection, root))]
    if len(applications) > 1:
        places = ", ".join(replace(settings, root=root).place for root in applications)
        raise MetadataStoreError(f"{settings.place} is shared by {len(applications)} applications; name one: {places}")
    return replace(settings, root=applications[0]) if applications else settings


def _children(connection: ZkConnection, path: str) -> list[str]:
    found = connection.ask([lambda client: client.get_children_async(path)])[0]
    return [] if isinstance(found, Exception) else list(found)
