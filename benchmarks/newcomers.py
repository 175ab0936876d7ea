"""Starts hosts while others work, without taking CPU time from the others.

A real host has its own CPUs for its Worker and its executor's JVM. Here all hosts share the CPUs of one machine, and a
starting JVM takes two of them for seconds. So a new host starts with the lowest priority, until its executor gets its
first task. From then on all hosts have the same priority. Both sides start hosts in this way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.say import say
from mooring.testing.cluster import SparkCluster
from mooring.testing.hosts import SparkHost

LOWEST, USUAL = 19, 0
"""Nice values, for all processes of a session."""

_FIRST_TASK = b"Got assigned task"
_LOOK_SECONDS = 0.02
_TRIES = 100


@contextmanager
def coming_up(cluster: SparkCluster, names: Iterable[str], application: str) -> Iterator[None]:
    """Start hosts that are down, all together. At the end of the block at the latest, each has its usual priority."""
    hosts = [cluster.hosts[name] for name in names]
    logs = [FirstTask(host.directory / "work" / application) for host in hosts]
    for host in hosts:
        host.start()
    done = threading.Event()
    threads = [
        threading.Thread(target=_raise_at_first_task, args=(host, log, done))
        for host, log in zip(hosts, logs, strict=True)
        if set_priority(host, LOWEST)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def set_priority(host: SparkHost, nice: int) -> bool:
    """Set the priority of the Worker's session, which includes all its child processes. Returns whether it has effect.

    It has none where the kernel's autogroups are switched off, or inside a control group for CPUs.
    """
    if _text("/proc/sys/kernel/sched_autogroup_enabled") != "1" or not _shares_all_processors():
        say(f"the priority of host {host.address} stays as it is: the kernel does not go by sessions here")
        return False
    for _ in range(_TRIES):
        try:
            Path(f"/proc/{host.worker.pid}/autogroup").write_text(str(nice))
            return True
        except BlockingIOError:  # ten changes a second, unless this is root
            time.sleep(_LOOK_SECONDS)
        except OSError as error:
            say(f"the priority of host {host.address} stays as it is: {error}")
            return False
    say(f"the priority of host {host.address} stays as it is: the kernel was asked {_TRIES} times")
    return False


def _shares_all_processors() -> bool:
    """Whether this process is in no control group for CPUs."""
    groups = [line.split(":", 2) for line in _text("/proc/self/cgroup").splitlines()]
    first = [path for _, controllers, path in groups if "cpu" in controllers.split(",")]
    second = [path for number, _, path in groups if number == "0"]
    return (first or second) == ["/"]


def _text(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError:  # another system
        return ""


class FirstTask:
    """Watches the logs of an application's future executors on one host for their first task."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known = set(directory.glob("*/stderr"))
        self._bytes_read: dict[Path, int] = {}

    def has_come(self) -> bool:
        """Whether a new executor has got a task since the last look."""
        return any(_FIRST_TASK in self._more(log) for log in set(self._directory.glob("*/stderr")) - self._known)

    def _more(self, log: Path) -> bytes:
        with log.open("rb") as file:
            file.seek(max(0, self._bytes_read.get(log, 0) - len(_FIRST_TASK)))  # the text may have been half written
            more = file.read()
            self._bytes_read[log] = file.tell()
        return more


def _raise_at_first_task(host: SparkHost, log: FirstTask, done: threading.Event) -> None:
    while not done.is_set() and not log.has_come():
        time.sleep(_LOOK_SECONDS)
    set_priority(host, USUAL)
