"""`python -m mooring.agent`: started by the driver's plugin, with the gateway's port and secret in the environment."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from mooring.agent.loop import Agent
from mooring.agent.resources import AgentResources
from mooring.errors import AgentError
from mooring.spark.bridge import JvmBridge

_LAST_SECONDS = 5.0

_SIGNALS_FOR_THE_DRIVER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that the agent ignores. They reach the whole process group, and are meant for the driver.

The driver may drain its queries first, and needs an agent for that. It ends the agent by closing the agent's input."""


def main() -> int:
    """Run until the driver has ended.

    Returns exit code 0, or 1 after a fault; the driver logs the message on standard error.
    """
    for signal_number in _SIGNALS_FOR_THE_DRIVER:
        signal.signal(signal_number, signal.SIG_IGN)
    opened: list[AgentResources] = []
    watch = threading.Thread(target=_end_with_the_driver, args=(opened,), name="mooring-driver-watch", daemon=True)
    watch.start()
    try:
        bridge = JvmBridge()
        resources = AgentResources(bridge)
        opened.append(resources)
        Agent(bridge, resources.open_records, resources.join_election, resources.handle).run()
    except AgentError as end:
        with suppress(OSError):  # nobody reads it if the driver has died
            print(end, file=sys.stderr, flush=True)
        watch.join(_LAST_SECONDS)  # a driver that died has closed our input too: the watch then closes the resources
        return 1
    return 0


def _end_with_the_driver(opened: Sequence[AgentResources]) -> None:
    """End the process when the driver closes standard input, whatever the main thread does."""
    while os.read(0, 4096):
        pass
    try:
        for resources in opened:
            resources.end()
    finally:
        os._exit(0)


if __name__ == "__main__":
    code = main()
    with suppress(OSError):  # as above
        sys.stderr.flush()
    os._exit(code)  # a thread that hangs in a read of a store must not delay the end
