"""Chooses the place of the demo's records: beside the checkpoint, in a server that it starts, or in a user's store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mooring.testing.kafka import KafkaBroker
from mooring.testing.zookeeper import ZooKeeperEnsemble


@contextmanager
def records_place(work: Path, metadata: str | None, server: str | None) -> Iterator[tuple[str, dict[str, str]]]:
    """The place, and the settings that name it to the plugin; no settings for the default place.

    `server` is "zookeeper" or "kafka": a server with its data in `work`, which is stopped at the end.
    """
    if server == "zookeeper":
        with ZooKeeperEnsemble(nodes=1, work_dir=work / "zookeeper") as ensemble:
            yield _named(f"zk://{ensemble.hosts}/mooring/standing-offers")
    elif server == "kafka":
        with KafkaBroker(work / "kafka") as broker:
            yield _named(f"kafka://{broker.servers}/mooring-standing-offers")
    elif metadata:
        yield _named(metadata)
    else:
        yield str(work / "checkpoints" / "_mooring" / "standing-offers"), {}


def _named(place: str) -> tuple[str, dict[str, str]]:
    return place, {"spark.mooring.metadata": place}
