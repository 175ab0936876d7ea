"""Reads the lines about state stores in the logs of executors, and defines the form of all logs in benchmarks.

Stock RocksDB and Mooring's log each opening with the same words (`Loading 9 with ...`, `Loaded 9 with ...`), because
Mooring's is a subclass. The lines are `<ms since the epoch>|<level>|<thread>|<logger>|<message>`, see LOG_PATTERN. The
logger's name has the store. A RocksDB instance that was an open copy keeps the copy's logger after a task has taken it.
So the thread, and not the logger, shows whether a line belongs to a copy or to a task.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

LOG_PATTERN = "%d{UNIX_MILLIS}|%p|%t|%c|%m%n"

_LINE = re.compile(r"(\d{13})\|(\w+)\|([^|]*)\|([^|]*)\|(.*)", re.DOTALL)
_STORE = re.compile(r"operatorId=(\d+), partitionId=(\d+), storeName=([^ \]]+)")
_COPY = re.compile(r"standby of \S*/state/(\d+)/(\d+)(?:/(\S+))?$")
_COPIES_THREAD = "mooring-standby-copy"
_LOADING = re.compile(r"Loading (\d+) with stateStoreCkptId")
_LOADED = re.compile(r"Loaded (?:\d+|empty store)\b")
_COPIED = re.compile(r"Copied (\d+) files \((\d+) bytes\) from DFS to local")
_COUNTS = re.compile(
    r"opened \S*/state/(\d+)/(\d+)(?:/(\S+))? at version \d+ in (\d+) ms: "
    r"from this host (?P<local_files>\d+) files \((?P<local_bytes>\d+) bytes\), (?P<local_changelogs>\d+) changelogs; "
    r"from the checkpoint (?P<remote_files>\d+) files \((?P<remote_bytes>\d+) bytes\), "
    r"(?P<remote_changelogs>\d+) changelogs"
)
_UPLOADED = re.compile(r"Upload snapshot of version .* time taken: (\d+) ms")
_KEPT = re.compile(r"keeping (\d+) files has taken (\d+) ms of writing state until now")
_FETCHED_LATER = re.compile(r"Retrying fetch .* after (\d+) ms")
_SLOW_CALL = re.compile(r"call (\w+) (\S+)")
_SLOW_READ = re.compile(r"read (\d+) (\S+)")

Store = tuple[int, int, str]
"""Operator, partition, store name."""


@dataclass(frozen=True)
class Line:
    """One line of a log in this form; `ms` is milliseconds since the epoch."""

    ms: int
    thread: str
    logger: str
    message: str


@dataclass
class Opening:
    """One opening of a state store; its times are milliseconds since the epoch."""

    store: Store
    began: int
    snapshot_found: int | None = None
    files_there: int | None = None
    database_open: int | None = None
    ended: int | None = None
    stock_copied_bytes: int = 0
    version: int = -1
    thread: str = ""

    @property
    def seconds(self) -> float:
        """From `Loading` to `Loaded`."""
        assert self.ended is not None
        return (self.ended - self.began) / 1000

    def parts(self) -> dict[str, float]:
        """The parts of the time, in seconds: find the snapshot, get its files, open RocksDB, the rest."""
        marks = [self.began, self.snapshot_found, self.files_there, self.database_open, self.ended]
        names = ("find", "files", "native", "rest")
        known = [mark if mark is not None else 0 for mark in marks]
        for number in range(1, len(known)):
            known[number] = max(known[number], known[number - 1])
        return {name: (b - a) / 1000 for name, a, b in zip(names, known, known[1:], strict=False)}


@dataclass(frozen=True)
class Reads:
    """The files and bytes that were read to open one store, from Mooring's log line."""

    store: Store
    ms: int
    local_files: int
    local_bytes: int
    remote_files: int
    remote_bytes: int
    local_changelogs: int
    remote_changelogs: int


@dataclass
class ExecutorLog:
    """The events in the log of one executor."""

    openings: list[Opening] = field(default_factory=list)
    reads: list[Reads] = field(default_factory=list)
    upload_ms: list[int] = field(default_factory=list)
    kept: tuple[int, int] = (0, 0)
    """(files that the host keeps, extra milliseconds that this took), from the last line that has them"""
    slow_calls: list[tuple[int, str, str, str]] = field(default_factory=list)
    """(time, thread, call, path)"""
    slow_reads: list[tuple[int, str, int, str]] = field(default_factory=list)
    """(time, thread, bytes, path)"""
    shuffle_waits: list[tuple[int, int]] = field(default_factory=list)
    """(time, milliseconds until blocks of a shuffle are requested again)"""
    began_ms: int | None = None
    """The time of the first line."""
    task_starts: dict[str, int] = field(default_factory=dict)
    """Thread to the start of its task. Spark names the thread after the task, its stage and the attempt."""

    def first_openings(self) -> list[Opening]:
        """The first complete opening of each store. An operator may open its store twice in a batch."""
        first: dict[Store, Opening] = {}
        for opening in self.openings:
            if opening.ended is not None:
                first.setdefault(opening.store, opening)
        return list(first.values())

    def remote_bytes(self, is_stock: bool, counts: Callable[[Store, int], bool] = lambda store, ms: True) -> int:
        """Bytes of state files that were read from the checkpoint, by the side's own count.

        `counts` selects openings by their store and time. Stock's count leaves out the snapshot archives (some KB
        each). Mooring logs stock's line too, but there it includes links; so Mooring's own line is used.
        """
        if is_stock:
            return sum(opening.stock_copied_bytes for opening in self.openings if counts(opening.store, opening.began))
        return sum(reads.remote_bytes for reads in self.reads if counts(reads.store, reads.ms))

    def calls_within(self, opening: Opening) -> dict[str, int]:
        """The number of calls to the slow storage for a store during its opening, by kind of call and file."""
        operator, partition, _ = opening.store
        where = f"/state/{operator}/{partition}"
        counted: dict[str, int] = {}
        for ms, _, call, path in self.slow_calls:
            if opening.began <= ms <= (opening.ended or 0) and (path.endswith(where) or f"{where}/" in path):
                kind = f"{call} {_kind_of(path)}"
                counted[kind] = counted.get(kind, 0) + 1
        return counted


def parse(text: str) -> ExecutorLog:
    """Read the log of one executor. Lines in another form, such as stack traces, are skipped."""
    log = ExecutorLog()
    running: dict[Store, Opening] = {}
    for line in lines_of(text):
        log.began_ms = log.began_ms or line.ms
        if line.message.startswith("Running task "):
            log.task_starts[line.thread] = line.ms
        if line.logger == "slow-storage":
            _note_storage(log, line)
        elif found := _COUNTS.search(line.message):
            counts = {name: int(count) for name, count in found.groupdict().items()}
            log.reads.append(Reads((int(found[1]), int(found[2]), found[3] or "default"), line.ms, **counts))
        elif found := _FETCHED_LATER.match(line.message):
            log.shuffle_waits.append((line.ms, int(found[1])))
        elif found := _UPLOADED.search(line.message):
            log.upload_ms.append(int(found[1]))
        elif found := _KEPT.search(line.message):
            log.kept = (int(found[1]), int(found[2]))
        elif store := _store_in(line):
            _note_opening(log, running, store, line)
    return log


def parse_file(path: Path) -> ExecutorLog:
    """Read the log of one executor from its file."""
    return parse(path.read_text(errors="replace"))


def _note_storage(log: ExecutorLog, line: Line) -> None:
    if found := _SLOW_CALL.match(line.message):
        log.slow_calls.append((line.ms, line.thread, found[1], found[2]))
    elif found := _SLOW_READ.match(line.message):
        log.slow_reads.append((line.ms, line.thread, int(found[1]), found[2]))


def _note_opening(log: ExecutorLog, running: dict[Store, Opening], store: Store, line: Line) -> None:
    if found := _LOADING.match(line.message):
        running[store] = Opening(store, line.ms, version=int(found[1]), thread=line.thread)
        log.openings.append(running[store])
        return
    opening = running.get(store)
    if opening is None:
        return
    if line.message.startswith("Loading checkpoint files for version"):
        opening.snapshot_found = line.ms
    elif found := _COPIED.match(line.message):
        opening.files_there = line.ms
        opening.stock_copied_bytes += int(found[2])
    elif line.message.startswith("Opened DB with conf"):
        opening.database_open = line.ms
    elif _LOADED.match(line.message):
        opening.ended = line.ms
        del running[store]


def lines_of(text: str) -> Iterator[Line]:
    """The lines of a log that have the form of LOG_PATTERN."""
    for line in text.splitlines():
        if found := _LINE.match(line):
            yield Line(int(found[1]), found[3], found[4], found[5])


def _store_in(line: Line) -> Store | None:
    """The store of a line; None for a line about a copy, or about no store."""
    found = _STORE.search(line.logger)
    if not found and line.thread != _COPIES_THREAD:
        found = _COPY.search(line.logger)
    return (int(found[1]), int(found[2]), found[3] or "default") if found else None


def _kind_of(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    for ending in (".zip.crc", ".changelog.crc", ".zip", ".changelog", ".sst", ".log"):
        if name.endswith(ending):
            return ending
    return "directory"
