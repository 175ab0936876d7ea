"""`mooring verify CHECKPOINT`: whether the state that a query would start from is whole, and what it costs if not."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from mooring.checkpoint import Proofs, Survey, Verification
from mooring.cli.checkpoint_place import INSTEAD, checkpoint_directory
from mooring.cli.exits import CommandFailed
from mooring.cli.output import ProgressLine, counted, print_json


def run(arguments: argparse.Namespace) -> None:
    """Read every file of the newest version, or of all versions that are left.

    BadUsage when the directory is no checkpoint; CommandFailed when something is wrong.
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
        newest = max(survey.commits, default=None)
        wanted = list(survey.commits) if arguments.all else [] if newest is None else [newest]
        faults = {batch: verification.faults_after(batch) for batch in wanted}
        logs = verification.log_faults()
        is_good = not logs and not any(faults.values())
        whole = newest if is_good else verification.newest_whole()
        read = verification.files_read()
    if arguments.json:
        print_json(
            {
                "checkpoint": str(checkpoint),
                "newest-batch": newest,
                "faults": {str(batch): list(found) for batch, found in faults.items() if found},
                "log-faults": list(logs),
                "newest-whole-batch": whole,
                "files-read": read,
            }
        )
    else:
        for fault in logs:
            progress.say(fault)
        for batch, found in faults.items():
            for fault in found:
                progress.say(f"batch {batch}: {fault}")
        if is_good:
            kept = counted(len(wanted), "batch", "batches")
            progress.say(f"{checkpoint}: {kept} whole, {counted(read, 'file')} read")
    if not is_good:
        raise CommandFailed(f"{checkpoint} is damaged; {_cost(newest, whole, faults.get(newest or 0, ()))}")


def _cost(newest: int | None, whole: int | None, faults: tuple[str, ...]) -> str:
    if whole is None:
        return "no batch is left whose state is whole"
    if whole == newest:
        return f"the newest batch, {newest}, is whole"
    stores = sorted({fault.partition(": ")[0] for fault in faults})
    lost = f" ({'; '.join(stores)})" if stores else ""
    back = 0 if newest is None else newest - whole
    return (
        f"of the newest batch {newest} something is lost{lost}; the newest whole one is {whole},"
        f" {counted(back, 'batch', 'batches')} back: mooring restore --to-newest-whole goes there"
    )
