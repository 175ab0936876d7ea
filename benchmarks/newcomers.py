"""Hosts that come up while others work, and do not take the processors that those work on.

A host brings processors of its own, on which its Worker and its executor's JVM start. Here all hosts share those of
one machine, and a JVM that starts takes two of them for seconds. So a newcomer starts at the lowest priority: it gets
what the others leave, until its executor is given its first task. From then on all are alike. Both sides start so.
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
"""Nice values, for all that a session runs."""

_FIRST_TASK = b"Got assigned task"
_LOOK_SECONDS = 0.02
_TRIES = 100


@contextmanager
def coming_up(cluster: SparkCluster, names: Iterable[str], application: str) -> Iterator[None]:
    """Hosts that are down come up together; at the end of the block each has its usual priority at the latest."""
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
    """Of the Worker and all that it starts, which are one session; whether the kernel goes by priorities of sessions.

    It does not where that is switched off, nor inside a control group for processors.
    """
    if _text("/proc/sys/kernel/sched_autogroup_enabled") != "1" or not _shares_all_processors():
        say(f"the priority of host {host.address} stays as it is: the kernel does not go by sessions here")
        return False
    for _ in range(_TRIES):
        try:
            Path(f"/proc/{host.worker.pid}/autogroup").write_text(str(nice))
            return True
        except BlockingIOError:  # who is not root may do it ten times a second
            time.sleep(_LOOK_SECONDS)
        except OSError as error:
            say(f"the priority of host {host.address} stays as it is: {error}")
            return False
    say(f"the priority of host {host.address} stays as it is: the kernel was asked {_TRIES} times")
    return False


def _shares_all_processors() -> bool:
    """Whether no control group for processors is between this process and the kernel."""
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
    """Watches the logs of an application's executors on one host, those that are not there yet, for the first task."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known = set(directory.glob("*/stderr"))
        self._read: dict[Path, int] = {}
        """How many bytes of each log."""

    def has_come(self) -> bool:
        """Whether one of the executors has been given a task since the last look."""
        return any(_FIRST_TASK in self._more(log) for log in set(self._directory.glob("*/stderr")) - self._known)

    def _more(self, log: Path) -> bytes:
        with log.open("rb") as file:
            file.seek(max(0, self._read.get(log, 0) - len(_FIRST_TASK)))  # it may have been written half
            more = file.read()
            self._read[log] = file.tell()
        return more


def _raise_at_first_task(host: SparkHost, log: FirstTask, done: threading.Event) -> None:
    while not done.is_set() and not log.has_come():
        time.sleep(_LOOK_SECONDS)
    set_priority(host, USUAL)
