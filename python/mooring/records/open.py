"""The records of a job, opened by a client on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.metadata import open_metadata_store
from mooring.metadata.open import require_zookeeper
from mooring.metadata.store import Report
from mooring.records.records import ReadRecords, Records


def open_records(place: str, options: Mapping[str, str], report: Report) -> ReadRecords:
    """The records at an address. Addresses, options and errors are those of `open_metadata_store`.

    A zk:// address names the root of one application, or a root that applications share: see `ZkClientRecords`.
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
    """The address and the records of each application at an address; the errors are those of `open_records`.

    A directory or a topic has one application; in ZooKeeper several may share a root. The records of an application are
    closed when the next one is asked for.
    """
    places = [place]
    records = open_records(place, options, report)
    try:
        if place.partition("://")[0].lower() == "zk":
            from mooring.records.zookeeper_client import ZkClientRecords

            assert isinstance(records, ZkClientRecords)  # as the scheme is zk
            places = records.places()
        if places == [place]:
            yield place, records
            return
    finally:
        records.close()
    for application_place in places:
        records = open_records(application_place, options, report)
        try:
            yield application_place, records
        finally:
            records.close()
