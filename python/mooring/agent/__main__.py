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

_OF_THE_DRIVER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""They reach the whole process group and are for the driver, which may drain its queries first and needs an agent then.
The driver ends the agent by closing its input."""


def main() -> int:
    """Run until the driver is gone.

    Exit code 0 then; anything else is a fault whose last words the driver logs.
    """
    for one in _OF_THE_DRIVER:
        signal.signal(one, signal.SIG_IGN)
    opened: list[AgentResources] = []
    watch = threading.Thread(target=_end_with_the_driver, args=(opened,), name="mooring-driver-watch", daemon=True)
    watch.start()
    try:
        bridge = JvmBridge()
        outside = AgentResources(bridge)
        opened.append(outside)
        Agent(bridge, outside.open_memory, outside.join_election, outside.hear).run()
    except AgentError as end:
        with suppress(OSError):  # where the driver has died nobody reads it
            print(end, file=sys.stderr, flush=True)
        watch.join(_LAST_SECONDS)  # a driver that died closes our input as well: then what is open is let go of there
        return 1
    return 0


def _end_with_the_driver(opened: Sequence[AgentResources]) -> None:
    """The driver holds the other end of standard input: its end is the sign to go, whatever the main thread does."""
    while os.read(0, 4096):
        pass
    try:
        for outside in opened:
            outside.end()
    finally:
        os._exit(0)


if __name__ == "__main__":
    code = main()
    with suppress(OSError):  # as above
        sys.stderr.flush()
    os._exit(code)  # a read of a store that hangs in its thread must not hold up the end
