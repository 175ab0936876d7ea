"""Real servers as child processes of a test. They can be started, paused and killed; a failure shows their log.

    broker = ChildProcess("kafka", ["bin/kafka-server", "server.properties"], log=work / "kafka.log")
    with broker.running(ready=lambda: accepts_connections("127.0.0.1", 9092)):
        broker.pause()      # what a client sees when the host goes silent
        broker.resume()
        broker.kill()       # kill -9

Each server has a process group of its own, so its child processes are paused and killed with it. No process is left
behind, even when the test is interrupted, or killed with -9 (see `guardian`). For POSIX systems.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from mooring.errors import ClusterError
from mooring.testing import guardian
from mooring.testing.probes import wait_until
from mooring.testing.processes import group_is_stopped, group_lives

_LOG_TAIL_BYTES = 64 * 1024

Self = TypeVar("Self", bound="StartedInWith")

_started: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


class ChildProcess:
    """One server: a command, its environment and its log. It can be started again after its end, with the same log."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Nothing is started. `env` is the whole environment, None for the parent's; `log` gets all output."""
        self.name = name
        self.command = [str(word) for word in command]
        self.log = log
        self._env = dict(env) if env is not None else None
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._group_may_live = False

    def start(self, ready: Callable[[], bool] | None = None, timeout: float = 60.0) -> None:
        """Start, and return when `ready()` is true. `ready` should make a real request, and not look for a log line.

        Processes that an earlier run has left in the group are killed first. `ClusterError` with the end of the log
        when the process ends before it is ready, or when it is not ready in time; then it is killed.
        """
        if self.is_running:
            raise ClusterError(f"{self.name} runs already, as process {self.pid}")
        self.kill()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        _guard.add(process.pid)
        self._process, self._group_may_live = process, True
        _started.add(self)
        if ready is not None:
            try:
                wait_until(
                    lambda: self._still_runs() and ready(), f"{self.name} to be ready", timeout, story=self.story
                )
            except BaseException:
                self.kill()
                raise

    @contextlib.contextmanager
    def running(self, ready: Callable[[], bool] | None = None, timeout: float = 60.0) -> Iterator[ChildProcess]:
        """`start` at the beginning of a with-block, `stop` at its end."""
        self.start(ready, timeout)
        try:
            yield self
        finally:
            self.stop()

    @property
    def pid(self) -> int:
        """The id of the process, and of its process group. `ClusterError` before the first start."""
        if self._process is None:
            raise ClusterError(f"{self.name} was never started")
        return self._process.pid

    @property
    def was_started(self) -> bool:
        """Whether it was ever started; then it has a `pid`, possibly of a dead process."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        """Whether the process is alive; a paused process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs or before it was started; minus the signal's number when a signal ended it."""
        return None if self._process is None else self._process.poll()

    def wait(self, timeout: float) -> int:
        """Wait until the process ends, and return its exit code. `ClusterError` with the log's end on a timeout."""
        wait_until(lambda: not self.is_running, f"{self.name} to end", timeout, story=self.story)
        code = self.exit_code
        assert code is not None
        return code

    def finish(self, timeout: float) -> None:
        """Wait for exit code 0, and kill the rest of the group. `ClusterError` with the log's end for another code."""
        if self.wait(timeout) != 0:
            raise ClusterError(f"{self.name} failed\n{self.story()}")
        self.kill()

    def pause(self) -> None:
        """SIGSTOP to the whole group: connections stay open, and no request is answered. Returns when it is stopped.

        `ClusterError` when it is not stopped after ten seconds. Then it goes on as before.
        """
        self._signal_group(signal.SIGSTOP)
        if self._process is not None:
            try:
                wait_until(lambda: group_is_stopped(self.pid), f"all of {self.name} to be stopped", timeout=10)
            except ClusterError:
                self.resume()
                raise

    def resume(self) -> None:
        """SIGCONT to the whole group."""
        self._signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """Kill -9 to the whole group, as if its host had lost power. Returns when all its processes are gone."""
        if self._process is not None:
            self._signal_group(signal.SIGKILL)
            self._process.wait()
            if self._group_may_live:
                wait_until(lambda: not group_lives(self.pid), f"all of {self.name} to be gone", timeout=10)
            self._forget_group()

    def kill_leader(self) -> None:
        """Kill -9 to the server's own process alone. Its child processes live on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def terminate(self) -> None:
        """SIGTERM to the server's own process; does not wait."""
        if self.is_running:
            self.resume()
            os.kill(self.pid, signal.SIGTERM)

    def stop(self, timeout: float = 10.0) -> None:
        """SIGTERM, a wait of at most `timeout` seconds, then kill -9 to the whole group."""
        deadline = time.monotonic() + timeout
        self.terminate()
        while self.is_running and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log, or the reason why there are none."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join(text.splitlines()[-lines:])

    def story(self) -> str:
        """A report for a failed test: the command, whether it runs, and the end of the log."""
        state = f"runs as {self.pid}" if self.is_running else f"ended with {self.exit_code}"
        return f"{self.name} {state}\ncommand: {' '.join(self.command)}\nend of {self.log}:\n{self.log_tail()}"

    def _still_runs(self) -> bool:
        if not self.is_running:
            raise ClusterError(f"{self.name} ended before it was ready\n{self.story()}")
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        # The group can outlive its first process. After the whole group is killed, its id may get reused.
        if self._group_may_live:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def _forget_group(self) -> None:
        self._group_may_live = False
        _guard.discard(self.pid)
        _started.discard(self)


class StartedInWith(ABC):
    """One or several servers that a with-block starts and stops; they are also stopped when the start fails."""

    @abstractmethod
    def start(self) -> None:
        """Start, and return when the servers answer."""

    @abstractmethod
    def stop(self) -> None:
        """Stop every server that runs."""

    def __enter__(self: Self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class OneServer:
    """A server of one process, with `kill`, `pause` and `resume` of that process."""

    process: ChildProcess

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, and no request is answered."""
        self.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self.process.resume()


def started_processes() -> list[ChildProcess]:
    """The servers of this Python process that were started and not stopped."""
    return sorted(_started, key=lambda child: child.name)


class _Guard:
    """The connection to the guardian process, which starts with the first server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guardian: subprocess.Popen[bytes] | None = None

    def add(self, group: int) -> None:
        self._send(f"+{group}\n")

    def discard(self, group: int) -> None:
        self._send(f"-{group}\n")

    def _send(self, line: str) -> None:
        with self._lock:
            if self._guardian is None:
                self._guardian = subprocess.Popen(
                    [sys.executable, "-I", "-S", guardian.__file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            pipe = self._guardian.stdin
            assert pipe is not None
            pipe.write(line.encode())
            pipe.flush()


_guard = _Guard()


@atexit.register
def _kill_what_is_left() -> None:
    # The guardian kills them too, but only after this interpreter has ended.
    for child in started_processes():
        child.kill()
