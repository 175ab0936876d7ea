"""A small process that kills the servers of its parent process after the parent has ended.

A test run may be killed with -9. Its servers and their children must then end too, even if they are paused (SIGSTOP).
The parent has the only write end of this process's standard input, so any end of the parent ends that stream.
PR_SET_PDEATHSIG does not work here: grandchildren, such as executors of a Worker, do not have it, and it also fires
when the *thread* that started the child ends.

It runs as a plain script, by path, without the package, and starts in 20 ms.
"""

import contextlib
import os
import signal
import sys


def keep_watch() -> None:
    """Read `+<group>` and `-<group>` lines until the stream ends, then kill every process group still listed."""
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    keep_watch()
