"""One application that was submitted in client mode: its driver is a child process of the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mooring.errors import ClusterError
from mooring.testing.probes import get_json, wait_until
from mooring.testing.processes import RunningProcess, first_below
from mooring.testing.servers import ChildProcess
from mooring.testing.spark_home import spark_home


def submit_command(
    master: str,
    job: str | Path,
    args: Sequence[str | Path],
    conf: Mapping[str, str],
    jars: Sequence[str | Path] = (),
    main_class: str | None = None,
    driver_memory: str = "1g",
) -> list[str | Path]:
    """The command that submits a job, a Python file or a jar with its `main_class`, in client mode."""
    command: list[str | Path] = [spark_home() / "bin" / "spark-submit", "--master", master]
    command += ["--driver-memory", driver_memory]
    if main_class:
        command += ["--class", main_class]
    if jars:
        command += ["--jars", ",".join(str(jar) for jar in jars)]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, job, *args]


class Submission:
    """The driver of one application: its process, its log and its REST interface."""

    def __init__(self, process: ChildProcess, ui_url: str) -> None:
        self.process = process
        self.ui_url = ui_url
        self._application = ""

    @property
    def log(self) -> str:
        """The output of the driver and the job so far."""
        return self.process.log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether the driver's JVM is alive."""
        return self.process.is_running

    @property
    def application(self) -> str:
        """The application's id. Waits for the driver's first answer, which takes some seconds after a start."""
        if not self._application:
            self.wait_until(self._has_given_its_id, "the driver to give the application's id")
        return self._application

    def _has_given_its_id(self) -> bool:
        self._application = str(get_json(f"{self.ui_url}/api/v1/applications")[0]["id"])
        return True

    def rest(self, path: str) -> Any:
        """The JSON of Spark's REST interface for this application, e.g. `rest("executors")`, `rest("stages")`."""
        return get_json(f"{self.ui_url}/api/v1/applications/{self.application}/{path}")

    def mooring_metrics(self) -> dict[str, float]:
        """Mooring's gauges in the driver's metrics system, by their names without `mooring.`."""
        gauges = get_json(f"{self.ui_url}/metrics/json/")["gauges"]
        named = ((name.partition(".MooringPlugin.mooring.")[2], gauge["value"]) for name, gauge in gauges.items())
        return {name: float(value) for name, value in named if name}

    def executors(self) -> dict[str, str]:
        """The executors that the driver can use now: id to host. `OSError` while the driver does not answer.

        An executor that has just registered has no block manager and no address for a moment, and is left out.
        """
        active = [listed for listed in self.rest("executors") if listed["isActive"]]
        known = ((listed["id"], listed["hostPort"].rpartition(":")[0]) for listed in active)
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
        """Wait until the condition is true. `ClusterError` on a timeout, and at once when the application ends."""

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
        """Wait until the application ends, and return its exit code. `ClusterError` with its log on a timeout."""
        return self.process.wait(timeout)

    def finish(self, timeout: float = 300.0) -> None:
        """Wait until the application succeeds. `ClusterError` with the log's end when it fails."""
        self.process.finish(timeout)

    def helper(self, word: str) -> RunningProcess | None:
        """The first process below the driver with this word in its command line, such as `mooring.agent`; else None."""
        return first_below(self.process.pid, word)

    def terminate(self, timeout: float = 30.0) -> None:
        """Send SIGTERM to the driver and wait for its end; after `timeout` seconds it is killed."""
        self.process.stop(timeout)

    def kill(self) -> None:
        """Kill -9 of the driver and of its child processes, as if the driver's host had lost power."""
        self.process.kill()

    def kill_driver(self) -> None:
        """Kill -9 of the driver's JVM alone; the job's Python and other child processes live on."""
        self.process.kill_leader()
