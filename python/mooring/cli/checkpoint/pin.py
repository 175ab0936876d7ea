"""`mooring pin CHECKPOINT --batch N`: keeps one batch for good, at the cost of a copy."""

from __future__ import annotations

import argparse
import time
from typing import Final

from mooring.checkpoint import Proofs, Survey, branch, described, pins, plan_branch
from mooring.cli import options
from mooring.cli.checkpoint_place import INSTEAD, checkpoint_directory
from mooring.cli.exits import BadUsage
from mooring.cli.output import ProgressLine, print_json, size

NAME: Final = "pin"
HELP: Final = "keep one batch of a checkpoint for good, at the cost of a copy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_checkpoint(parser)
    parser.add_argument("--batch", metavar="N", type=int, required=True, help="the batch; see mooring history")
    parser.add_argument("--release", action="store_true", help="remove the copy; the batch is no longer kept")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Pin the batch, or release it.

    BadUsage when there is no such batch or pin; CheckpointError when it is not whole, or is pinned already.
    """
    checkpoint = checkpoint_directory("CHECKPOINT", arguments.checkpoint, INSTEAD)
    pinned = pins.pinned(checkpoint)
    if arguments.release:
        if arguments.batch not in pinned:
            raise BadUsage(f"--batch {arguments.batch}: expected a batch that is pinned: {described(pinned)}")
        pins.release(checkpoint, arguments.batch)
        result = {"checkpoint": str(checkpoint), "batch": arguments.batch, "released": True}
        print_json(result) if arguments.json else print(f"batch {arguments.batch} is no longer pinned")
        return
    progress = ProgressLine(time.monotonic)
    with Proofs() as proofs:
        survey = Survey(checkpoint, proofs.lineage)
        if arguments.batch not in survey.committed:
            kept = described(survey.committed)
            raise BadUsage(f"--batch {arguments.batch}: expected a committed batch that is kept: {kept}")
        plan = plan_branch(survey, arguments.batch)
        place = pins.place_of(checkpoint, arguments.batch)
        branch.carry_out(plan, place, lambda file: None if arguments.json else progress.show(f"copying {file}"))
    if arguments.json:
        print_json({"checkpoint": str(checkpoint), "batch": arguments.batch, "pin": str(place), "bytes": plan.bytes})
    else:
        progress.say(
            f"batch {arguments.batch} is pinned: {len(plan.files)} files, {size(plan.bytes)}, in {place}; go back by"
            f" mooring restore {checkpoint} --to-batch {arguments.batch} --into NEW_CHECKPOINT"
        )
