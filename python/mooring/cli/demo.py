"""`mooring demo`: three hosts on this machine, a real stream, and what happens to it, shown and compared."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.output import ProgressLine
from mooring.cli.records import CommandRecords

NAME: Final = "demo"
HELP: Final = "show Mooring on three hosts of this machine: a real stream, a kill, a restart, a drain"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument("--json", metavar="FILE", help="write what was measured into this file")
    store = parser.add_mutually_exclusive_group()
    store.add_argument(
        "--with",
        dest="server",
        choices=["zookeeper", "kafka"],
        help="keep the records in a server that the demo starts (Kafka's jars are fetched once, 40 MB)",
    )
    store.add_argument(
        "--metadata", metavar="PLACE", help="keep the records in a store of yours, at a place that no job uses"
    )


def run(arguments: argparse.Namespace) -> None:
    """Run the demo and show it. CommandFailed when the rows that came out are not the right ones."""
    file = None if arguments.json is None else _writable(Path(arguments.json))
    if arguments.metadata is not None:  # what is wrong with it is said before the demo runs for minutes
        CommandRecords(arguments.metadata)
    _need_java()
    from mooring.demo import acts  # loads PySpark

    line = ProgressLine(time.monotonic)
    with _sigterm_as_interrupt():
        measures = acts.run(line.say, line.show, arguments.metadata, arguments.server)
    if file is not None:
        file.write_text(json.dumps(measures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    line.say(as_text(measures))
    if not measures["rows-out-equal-offline-answer"]:
        raise CommandFailed("the rows that came out are not those of the answer computed without Spark: see above")


def as_text(measures: dict[str, Any]) -> str:
    """The measures for people, one a line."""
    acts = ("move", "restart", "standby", "rollback", "drain")
    move, restart, standby, rollback, drain = (measures[act] for act in acts)
    rows = [
        ("hosts, executors", f"{measures['hosts']}, {measures['executors']}"),
        ("metadata store", measures["metadata"]),
        ("batches", f"{measures['batches']}, median {measures['median-batch-seconds']:.1f} s"),
        ("tasks with state where the plan says", f"{measures['placed-as-planned-percent']} %"),
        ("a processor moved to another host, and back", f"{move['there']}, {move['back']}; {_batches_of(move)}"),
        ("first commit after the kill", f"{measures['first-commit-after-kill-seconds']:.1f} s"),
        (
            "state stores opened at the restart",
            f"{restart['local-opens']} locally, {restart['remote-opens']} from the checkpoint "
            f"({restart['bytes-from-snapshots']} bytes)",
        ),
        (
            "first commit after a kill, with standbys",
            f"{standby['first-commit-after-kill-seconds']:.1f} s; {standby['failovers-to-standby']} of "
            f"{len(standby['tasks'])} tasks went on where their copies were",
        ),
        (
            "back to an earlier batch, and on from there",
            f"{rollback['undone']} batches undone; {'the same answer' if rollback['equal'] else 'ANOTHER ANSWER'}",
        ),
        (
            "windows that came out, before and after a drain",
            f"{drain['rows-before']}, {drain['rows-out']}; {drain['state-rows-left']} rows of state left",
        ),
        ("rows equal to the offline answer", "yes, all" if measures["rows-out-equal-offline-answer"] else "NO"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(["", *(f"{name.ljust(width)}  {value}" for name, value in rows)])


def _batches_of(move: dict[str, Any]) -> str:
    """How long batches took before a move, and during it."""
    longest = move["longest-batch-seconds-during"]
    during = "none during" if longest is None else f"longest during {longest:.1f} s"
    return f"batches: median before {move['median-batch-seconds-before']:.1f} s, {during}"


def _writable(path: Path) -> Path:
    """Refuse a file that cannot be written before the demo runs for minutes, not after."""
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise BadUsage(f"--json {path}: expected a file that can be written, in a directory that exists")
    return path


def _need_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH"
        raise CommandFailed(f"the demo needs Java 17 or newer: {where}")


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with everything cleared away."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
