"""One application handed to a cluster with spark-submit, in client mode: its driver is a child process of the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from mooring.errors import ClusterError
from mooring.testing.probes import get_json, wait_until
from mooring.testing.processes import RunningProcess, descendants
from mooring.testing.servers import ChildProcess


class Submission:
    """The driver of one application: its process, its log, what its REST interface says."""

    def __init__(self, process: ChildProcess, ui_url: str) -> None:
        self.process = process
        self.ui_url = ui_url
        self._application = ""

    @property
    def log(self) -> str:
        """Everything that the driver and the job have printed so far."""
        return self.process.log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether the driver's JVM is alive."""
        return self.process.is_running

    @property
    def application(self) -> str:
        """The application's id; waits for the driver's first answer, which takes a cold JVM some seconds."""
        if not self._application:
            self.wait_until(self._has_given_its_id, "the driver to give the application's id")
        return self._application

    def _has_given_its_id(self) -> bool:
        self._application = str(get_json(f"{self.ui_url}/api/v1/applications")[0]["id"])
        return True

    def rest(self, path: str) -> Any:
        """What Spark's REST interface says of this application, e.g. `rest("executors")`, `rest("stages")`."""
        return get_json(f"{self.ui_url}/api/v1/applications/{self.application}/{path}")

    def mooring_metrics(self) -> dict[str, float]:
        """Mooring's gauges in the driver's metrics system, by their names without `mooring.`."""
        gauges = get_json(f"{self.ui_url}/metrics/json/")["gauges"]
        named = ((name.partition(".MooringPlugin.mooring.")[2], one["value"]) for name, one in gauges.items())
        return {name: float(value) for name, value in named if name}

    def executors(self) -> dict[str, str]:
        """The executors that the driver can use now: id to host. `OSError` while the driver does not answer.

        One that has registered but brought no block manager yet, which takes a moment, has no address and is left out.
        """
        known = ((one["id"], one["hostPort"].rpartition(":")[0]) for one in self.rest("executors") if one["isActive"])
        return {executor: host for executor, host in known if executor != "driver" and host}

    def wait_for_executors(self, count: int, timeout: float = 60.0) -> dict[str, str]:
        """Return once at least `count` executors are registered with the driver: id to host."""
        registered: dict[str, str] = {}

        def enough() -> bool:
            registered.clear()
            registered.update(self.executors())
            return len(registered) >= count

        self.wait_until(enough, f"{count} executors", timeout)
        return registered

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        """Wait for what must come true while the application runs. `ClusterError` at once when it ends first."""

        def true_or_still_possible() -> bool:
            running = self.is_running
            with contextlib.suppress(OSError):
                if condition():
                    return True
            if not running:
                raise ClusterError(f"{self.process.name} ended while waiting for {what}\n{self.process.story()}")
            return False

        wait_until(true_or_still_possible, what, timeout, interval=0.1, story=self.process.story)

    def wait(self, timeout: float = 300.0) -> int:
        """The exit code, when the application has ended by itself. `ClusterError` with its log after `timeout`."""
        return self.process.wait(timeout)

    def finish(self, timeout: float = 300.0) -> None:
        """Wait for an application that must succeed. `ClusterError` with the log's end when it does not."""
        self.process.finish(timeout)

    def helper(self, word: str) -> RunningProcess | None:
        """The first process below the driver whose command line holds this word (say `mooring.agent`), if any."""
        found = (process for process in descendants(self.process.pid) if any(word in part for part in process.command))
        return next(found, None)

    def terminate(self, timeout: float = 30.0) -> None:
        """Stop as an operator does (SIGTERM to the driver), and wait; killed when it takes longer than `timeout`."""
        self.process.stop(timeout)

    def kill(self) -> None:
        """Kill -9 of the driver and of everything it started, as if the driver's host had lost power."""
        self.process.kill()

    def kill_driver(self) -> None:
        """Kill -9 of the driver's JVM alone; the job's Python and other helpers must notice by themselves."""
        self.process.kill_leader()
