"""The processes of this machine, read from /proc. For Linux."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


@dataclass(frozen=True)
class RunningProcess:
    """One running process. A zombie (dead, but not yet collected by its parent) does not count as running."""

    pid: int
    parent: int
    group: int
    command: tuple[str, ...]

    def option(self, name: str) -> str:
        """The word after `name` in the command line; empty when it is not there."""
        try:
            return self.command[self.command.index(name) + 1]
        except (ValueError, IndexError):
            return ""


def running_processes() -> list[RunningProcess]:
    """Every process with a command line that this user may see, in no order.

    A child that a JVM has just forked is left out. It has the JVM's command line until it executes its own program, and
    would be taken for a second executor or driver.
    """
    found = [_read(directory) for directory in _PROC.iterdir() if directory.name.isdigit()]
    everyone = {process.pid: process for process in found if process is not None}
    return [process for process in everyone.values() if not _is_fork_of_jvm(process, everyone.get(process.parent))]


def is_alive(pid: int) -> bool:
    """Whether this process runs; false for a zombie."""
    return _state(_PROC / str(pid)) is not None


def group_lives(group: int) -> bool:
    """Whether a process of this group runs; a killed process may still run for a moment."""
    states = (_state(directory) for directory in _PROC.iterdir() if directory.name.isdigit())
    return any(state is not None and state.group == group for state in states)


def group_is_stopped(group: int) -> bool:
    """Whether each thread of this group's processes is stopped; a signal reaches one thread after the other."""
    states = {path: _state(path) for path in _PROC.iterdir() if path.name.isdigit()}
    members = [path for path, state in states.items() if state is not None and state.group == group]
    return all(_is_stopped(thread) for path in members for thread in path.glob("task/*"))


def descendants(pid: int) -> list[RunningProcess]:
    """The children of a process, their children, and so on, oldest generation first."""
    everyone = running_processes()
    found: list[RunningProcess] = []
    generation = {pid}
    while generation:
        children = [process for process in everyone if process.parent in generation]
        found += children
        generation = {child.pid for child in children}
    return found


def first_below(pid: int, word: str) -> RunningProcess | None:
    """The first descendant of a process with this word in its command line; None when there is none."""
    return next((found for found in descendants(pid) if any(word in part for part in found.command)), None)


def _is_fork_of_jvm(process: RunningProcess, parent: RunningProcess | None) -> bool:
    return parent is not None and process.command == parent.command and process.command[0].endswith("java")


class _State(NamedTuple):
    parent: int
    group: int


def _state(directory: Path) -> _State | None:
    # None for a dead process. Only this decides whether a process lives: while a process executes another program, it
    # has no command line for a moment.
    try:
        # "pid (name) state ppid pgrp …": the name may hold spaces and brackets, so count from its end.
        state, parent, group = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()[:3]
    except OSError:
        return None
    return None if state in "ZX" else _State(int(parent), int(group))


def _is_stopped(thread: Path) -> bool:
    try:
        letter = (thread / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return True  # it has ended
    # D: it is in a call of the kernel, and stops before it returns to its program. Such a call lasts as long as the
    # stop where it waits for a child that was stopped between its fork and its own program.
    return letter in "TtZXD"


def _read(directory: Path) -> RunningProcess | None:
    state = _state(directory)
    try:
        command = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return None
    if state is None or not command:
        return None
    return RunningProcess(int(directory.name), state.parent, state.group, tuple(command))


def environment(pid: int) -> dict[str, str]:
    """The environment of a process at its start. `OSError` when it is gone, or belongs to another user."""
    pairs = (_PROC / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
