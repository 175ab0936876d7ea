"""A small process that outlives its parent by a moment, and takes the parent's servers with it.

A test run may be killed with -9; its servers must go too, and so must what they started, also when it is stopped
(SIGSTOP) at that moment. The parent holds the only write end of this process's standard input: its end, however it
came about, is the end of that stream. PR_SET_PDEATHSIG would not do: it is lost on grandchildren (the executors that a
Worker starts), and it fires when the *thread* that started the child ends.

Run as a plain script, by path, without the package: it starts in 20 ms.
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
