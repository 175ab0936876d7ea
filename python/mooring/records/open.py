"""The records of a job, for those who read them: the client, from any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.metadata import open_metadata_store
from mooring.metadata.open import require_zookeeper
from mooring.metadata.store import Report
from mooring.records.records import ReadRecords, Records


def open_records(place: str, options: Mapping[str, str], report: Report) -> ReadRecords:
    """The records in a store; as `open_metadata_store`, and with its errors.

    A zk:// address names the root of one application, or the root that several share: see `ZkClientRecords`.
    """
    scheme = place.partition("://")[0].lower()
    look_only = {"make.topic": "false"} if scheme == "kafka" else {}
    if scheme != "zk":
        return Records(open_metadata_store(place, report=report, **{**look_only, **options}), report)
    require_zookeeper(place)
    from mooring.metadata.zookeeper import settings_from
    from mooring.records.zookeeper_client import ZkClientRecords

    return ZkClientRecords(settings_from(place, options), report)


def open_each(place: str, options: Mapping[str, str], report: Report) -> Iterator[tuple[str, ReadRecords]]:
    """The records of each application at a place, with its own place; each is closed when the next is asked for.

    As `open_records` for the errors. One in a directory or a topic; in ZooKeeper those that share the root.
    """
    places = [place]
    records = open_records(place, options, report)
    try:
        if place.partition("://")[0].lower() == "zk":
            from mooring.records.zookeeper_client import ZkClientRecords

            assert isinstance(records, ZkClientRecords)  # by the scheme
            places = records.places()
        if places == [place]:
            yield place, records
            return
    finally:
        records.close()
    for one in places:
        records = open_records(one, options, report)
        try:
            yield one, records
        finally:
            records.close()
