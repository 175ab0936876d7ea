"""What the agent opens outside of itself: the metadata store, and the election where drivers share the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.agent.leadership import Helm
from mooring.agent.memory import Memory
from mooring.agent.records import Records
from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata import FileMetadataStore, MemoryMetadataStore, MetadataStore, open_metadata_store
from mooring.model import events
from mooring.model.standing import NONE, UNKNOWN, Standing
from mooring.settings import Settings
from mooring.spark.bridge import JvmBridge
from mooring.spark.hadoop_tree import open_tree

if TYPE_CHECKING:  # kazoo is there only for those who use it
    from mooring.agent.zookeeper_election import ZkElection

LAST_WRITES_SECONDS = 1.5
"""Less than the driver waits for the agent's end."""


class Outside:
    """Opens each once, and lets go of all of it at the end."""

    def __init__(self, bridge: JvmBridge) -> None:
        self._bridge = bridge
        self._memory: Memory | None = None
        self._helm: Helm | None = None
        self._has_lost = False
        self._election: ZkElection | None = None

    def open_memory(self, settings: Settings, place: str, application: str, say: Callable[[str], None]) -> Memory:
        """The records in the store; with an election, written only while this driver leads."""
        store = self._open_store(settings, place, say)
        self._memory = Memory(store, say, self._may_write, self._records)
        return self._memory

    def take_helm(self, starting: events.DriverStarting) -> None:
        """Take part in the election, once; where that is not possible the JVM is told."""
        if self._helm is not None or self._has_lost:
            return
        if not self._bridge.lead(Standing(UNKNOWN), time.time()):
            self._has_lost = True  # under an agent before this one
            return
        settings = Settings.from_conf(starting.settings)
        place = settings.metadata or ""
        try:
            from mooring.agent.zookeeper_election import ZkElection

            name = f"{starting.name} on {starting.driver_host}"
            self._election = ZkElection(
                place, settings.metadata_options, name, self._bridge.inherit(), self._bridge.say
            )
        except (ModuleNotFoundError, MetadataStoreError, InvalidSettingError) as error:
            self._bridge.say(f"this driver takes part in no election ({error})")
            self._bridge.lead(Standing(NONE), time.time())
            return
        self._helm = Helm(self._election, self._bridge)

    def _records(self, store: MetadataStore, say: Callable[[str], None]) -> Records:
        return Records(store, say) if self._election is None else self._election.records(store, say)

    def _may_write(self) -> bool:
        """Whether records may be kept for all: always where there is no election."""
        return not self._has_lost and (self._helm is None or self._helm.may_write())

    def end(self) -> None:
        """Write what is to be kept, in a moment, and stand down."""
        if self._memory is not None:
            self._memory.drain(LAST_WRITES_SECONDS)
        if self._helm is not None:
            self._helm.close()

    def _open_store(self, settings: Settings, place: str, say: Callable[[str], None]) -> MetadataStore:
        """The store that the settings name; one that can not even be opened is replaced by none, said once."""
        try:
            scheme = place.split("://")[0]
            if scheme in ("zk", "kafka", "memory"):
                # Of two drivers the one that came last keeps the records; the other is told that it was replaced.
                own = {"exclusive.writer": "agent"} if scheme == "kafka" else {}
                return open_metadata_store(place, report=say, **{**own, **settings.metadata_options})
            for name in sorted(settings.metadata_options):
                say(f"spark.mooring.metadata.{name} has no effect on {place}: only zk:// and kafka:// have options")
            return FileMetadataStore(open_tree(self._bridge.jvm, place), report=say)
        except (MetadataStoreError, InvalidSettingError) as error:
            say(f"the metadata store {place} can not be opened ({error}): places are not kept beyond this application")
            return MemoryMetadataStore(report=say)
