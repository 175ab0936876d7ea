"""`mooring verify CHECKPOINT`: checks the state that a query would start from, and says what a damage costs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from mooring.checkpoint import Proofs, Survey, Verification
from mooring.cli import options
from mooring.cli.checkpoint_place import INSTEAD, checkpoint_directory
from mooring.cli.exits import CommandFailed
from mooring.cli.output import ProgressLine, counted, print_json
from mooring.errors import CheckpointNotUnderstood

NAME: Final = "verify"
HELP: Final = "check that the state in a checkpoint is whole and undamaged"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_checkpoint(parser)
    parser.add_argument(
        "--all", action="store_true", help="check the state of all batches that are left, not only of the newest one"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Read every file of the newest version, or of all versions that are left.

    BadUsage when the directory is no checkpoint; CommandFailed when a file is damaged or missing;
    CheckpointNotUnderstood when no damage was found, but this version cannot judge all files.
    """
    checkpoint = checkpoint_directory("CHECKPOINT", arguments.checkpoint, INSTEAD)
    progress = ProgressLine(time.monotonic)
    quiet = arguments.json

    def step(file: Path) -> None:
        if not quiet:
            progress.show(f"reading {file.relative_to(checkpoint)}")

    with Proofs() as proofs:
        survey = Survey(checkpoint, proofs.lineage)
        verification = Verification(survey, proofs.fault_of, step)
        newest = max(survey.committed, default=None)
        wanted = list(survey.committed) if arguments.all else [] if newest is None else [newest]
        judgements = {batch: verification.judgement_of(batch) for batch in wanted}
        faults = {batch: judgement.faults for batch, judgement in judgements.items()}
        unknown = {batch: judgement.unknown for batch, judgement in judgements.items() if judgement.unknown}
        logs, logs_unknown = verification.log_faults(), verification.logs_not_understood()
        is_good = not logs and not any(faults.values())
        whole = newest if is_good and not unknown else _newest_whole(verification)
        read = verification.files_read()
    if arguments.json:
        print_json(
            {
                "checkpoint": str(checkpoint),
                "newest-batch": newest,
                "faults": {str(batch): list(found) for batch, found in faults.items() if found},
                "log-faults": list(logs),
                "not-understood": {str(batch): list(found) for batch, found in unknown.items()},
                "logs-not-understood": list(logs_unknown),
                "newest-whole-batch": None if isinstance(whole, CheckpointNotUnderstood) else whole,
                "files-read": read,
            }
        )
    else:
        for fault in logs:
            progress.say(fault)
        for batch, found in faults.items():
            for fault in found:
                progress.say(f"batch {batch}: {fault}")
        for batch, found in unknown.items():
            for what in found:
                progress.say(f"batch {batch}: {CheckpointNotUnderstood(what)}")
        if is_good:
            good = [batch for batch, judgement in judgements.items() if judgement.verdict == "yes"]
            kept = counted(len(good), "batch", "batches")
            progress.say(f"{checkpoint}: {kept} whole, {counted(read, 'file')} read")
    if not is_good:
        raise CommandFailed(f"{checkpoint} is damaged; {_cost(newest, whole, faults.get(newest or 0, ()))}")
    if unknown or logs_unknown:
        what = f"batch {max(unknown)}: {unknown[max(unknown)][0]}" if unknown else logs_unknown[0]
        raise CheckpointNotUnderstood(f"{checkpoint}, {what}; no damage was found, and nothing need be undone for this")


def _newest_whole(verification: Verification) -> int | CheckpointNotUnderstood | None:
    """The newest whole batch, None without one, or why that cannot be told."""
    try:
        return verification.newest_whole()
    except CheckpointNotUnderstood as unknown:
        return unknown


def _cost(newest: int | None, whole: int | CheckpointNotUnderstood | None, faults: tuple[str, ...]) -> str:
    if isinstance(whole, CheckpointNotUnderstood):
        return f"how far back the newest whole batch is can not be told: {whole}"
    if whole is None:
        return "no batch is left whose state is whole"
    if whole == newest:
        return f"the newest batch, {newest}, is whole"
    stores = sorted({fault.partition(": ")[0] for fault in faults})
    lost = f" ({'; '.join(stores)})" if stores else ""
    back = 0 if newest is None else newest - whole
    return (
        f"state of the newest batch {newest} is lost{lost}; the newest whole one is {whole},"
        f" {counted(back, 'batch', 'batches')} back: mooring restore --to-newest-whole goes there"
    )
