"""`mooring drain --checkpoint DIR`: drains a query that does not run, at its next start and without any new input."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, Final

from mooring.checkpoint.lease import DIRECTORY, lease_on
from mooring.checkpoint.notes import leave_note
from mooring.cli.checkpoint_place import checkpoint_directory
from mooring.cli.exits import BadUsage, CommandFailed, CommandTimedOut
from mooring.cli.output import ProgressLine, print_json
from mooring.settings.notation import format_duration

WANTED: Final = "to-drain.json"
DRAINED: Final = "drained.json"

_LOOK_EVERY_SECONDS = 0.5
_INSTEAD: Final = "start the job with spark.mooring.drain.on.start=true instead"


def run(arguments: argparse.Namespace) -> None:
    """Leave a note in a checkpoint that its query is to be drained at its next start; with `--wait`, wait for that.

    BadUsage when the directory is no checkpoint, or options of a running application are given as well;
    CommandTimedOut when it takes longer.
    """
    _refuse_other_options(arguments)
    checkpoint = checkpoint_directory("--checkpoint", arguments.checkpoint, _INSTEAD)
    timeout_ms: int = arguments.timeout
    progress = ProgressLine(time.monotonic)
    drained = _drained(checkpoint)
    if drained is None:
        _leave_note(checkpoint)
        if not arguments.json:
            progress.say(f"{checkpoint} is drained when its query is started the next time, with the plugin")
            _hint_at_one_that_runs(checkpoint, progress)
    deadline = time.monotonic() + timeout_ms / 1000
    while arguments.wait and drained is None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise CommandTimedOut(f"{checkpoint} is not drained after {format_duration(timeout_ms)}; the note stays")
        time.sleep(min(_LOOK_EVERY_SECONDS, left))
        drained = _drained(checkpoint)
    if arguments.json:
        print_json({"checkpoint": str(checkpoint), "drained": drained})
    elif drained is not None:
        progress.say(
            f"{checkpoint} is drained since batch {drained['batch']}: {drained['state-rows-flushed']} rows of state"
            f" went, {drained['state-rows-left']} are left"
        )


def _hint_at_one_that_runs(checkpoint: Path, progress: ProgressLine) -> None:
    lease = lease_on(checkpoint)
    if lease is not None and lease.holds(time.time_ns() // 1_000_000):
        progress.say(f"it runs now, in {lease.application}: mooring drain --metadata PLACE drains it at once")


def _refuse_other_options(arguments: argparse.Namespace) -> None:
    others = {
        "--query": arguments.query,
        "--deployment-id": arguments.deployment_id,
        "--metadata": arguments.metadata,
    }
    given = [option for option, value in others.items() if value is not None]
    if given:
        raise BadUsage(f"--checkpoint is about a query that does not run: expected it without {', '.join(given)}")


def _leave_note(checkpoint: Path) -> None:
    try:
        leave_note(checkpoint, WANTED, {"at": time.time_ns() // 1_000_000})
    except OSError as fault:
        raise CommandFailed(f"cannot write to {checkpoint / DIRECTORY}: {fault.strerror}; nothing was noted") from fault


def _drained(checkpoint: Path) -> dict[str, Any] | None:
    """The mark that a drain has left, if no batch came after the drain."""
    file = checkpoint / DIRECTORY / DRAINED
    try:
        mark: dict[str, Any] = json.loads(file.read_text())
        last = int(mark["batch"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CommandFailed(f"{file} can not be read: {fault}") from fault
    return mark if last >= _last_commit(checkpoint) >= 0 else None


def _last_commit(checkpoint: Path) -> int:
    return max((int(name) for name in os.listdir(checkpoint / "commits") if name.isdigit()), default=-1)
