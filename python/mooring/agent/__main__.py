"""`python -m mooring.agent`: started by the driver's plugin, with the gateway's port and secret in the environment."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence

from mooring.agent.loop import Agent
from mooring.agent.memory import Memory
from mooring.errors import AgentError, InvalidSettingError, MetadataStoreError
from mooring.metadata import FileMetadataStore, MemoryMetadataStore, MetadataStore, open_metadata_store
from mooring.settings import Settings
from mooring.spark.bridge import JvmBridge
from mooring.spark.hadoop_tree import open_tree

LAST_WRITES_SECONDS = 1.5
"""Less than the driver waits for the agent's end."""


def main() -> int:
    """Run until the driver is gone.

    Exit code 0 then; anything else is a fault whose last words the driver logs.
    """
    memories: list[Memory] = []
    threading.Thread(target=_end_with_the_driver, args=(memories,), name="mooring-driver-watch", daemon=True).start()
    bridge = JvmBridge()

    def open_memory(settings: Settings, place: str, application: str, say: Callable[[str], None]) -> Memory:
        memories.append(Memory(_open_store(bridge, settings, place, say), say))
        return memories[-1]

    try:
        Agent(bridge, open_memory).run()
    except AgentError as end:
        print(end, file=sys.stderr)
        return 1
    return 0


def _open_store(bridge: JvmBridge, settings: Settings, place: str, say: Callable[[str], None]) -> MetadataStore:
    """The store that the settings name; one that can not even be opened is replaced by none, said once."""
    try:
        if "://" in place and place.split("://")[0] in ("zk", "kafka", "memory"):
            return open_metadata_store(place, report=say, **settings.metadata_options)
        for name in sorted(settings.metadata_options):
            say(f"spark.mooring.metadata.{name} has no effect on {place}: only zk:// and kafka:// have options")
        return FileMetadataStore(open_tree(bridge.jvm, place), report=say)
    except (MetadataStoreError, InvalidSettingError) as error:
        say(f"the metadata store {place} can not be opened ({error}): places are not kept beyond this application")
        return MemoryMetadataStore(report=say)


def _end_with_the_driver(memories: Sequence[Memory]) -> None:
    """The driver holds the other end of standard input: its end is the sign to go, whatever the main thread does."""
    while os.read(0, 4096):
        pass
    for memory in memories:
        memory.drain(LAST_WRITES_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
