"""`mooring restore CHECKPOINT`: takes a checkpoint back to an earlier batch, or makes a new one as of that batch."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, Final

from mooring.checkpoint import (
    Proofs,
    Survey,
    Verification,
    branch,
    described,
    lease_on,
    pins,
    plan_branch,
    plan_rollback,
    rollback,
    sink_log,
    under_way,
)
from mooring.cli import options
from mooring.cli.checkpoint_place import INSTEAD, checkpoint_directory, local_path
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.output import ProgressLine, counted, print_json, size

NAME: Final = "restore"
HELP: Final = "have a query that does not run start again as of an earlier batch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_checkpoint(parser)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--to-batch", metavar="N", type=int, help="the batch to go back to; see mooring history")
    goal.add_argument(
        "--to-newest-whole", action="store_true", help="go back to the newest batch whose state is whole and undamaged"
    )
    parser.add_argument(
        "--into",
        metavar="NEW_CHECKPOINT",
        help="make a new checkpoint there, for a second run of the query, and leave this one as it is",
    )
    parser.add_argument(
        "--new-file-sink",
        metavar="DIRECTORY",
        help="for a query with a file sink: prepare this directory, so that the query can write into it from its next"
        " batch on",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument(
        "--without-missing-input",
        action="store_true",
        help="go back also where input files of later batches are gone; the query goes on without them",
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Go back, or say what that would be with --dry-run.

    BadUsage when the directory is no checkpoint; CommandFailed when an application works on it (but for `--into`, which
    only reads it) and when no batch is whole; CheckpointError when the batch can not be gone back to, and
    CheckpointNotUnderstood when a batch that would be undone can not be judged: it may be good.
    """
    checkpoint = checkpoint_directory("CHECKPOINT", arguments.checkpoint, INSTEAD)
    into = None if arguments.into is None else local_path("--into", arguments.into, INSTEAD)
    named = arguments.new_file_sink
    sink = None if named is None else local_path("--new-file-sink", named, INSTEAD)
    if into is not None and (into == checkpoint or checkpoint in into.parents):
        raise BadUsage(f"--into {arguments.into}: expected a place outside of the checkpoint {checkpoint}")
    if sink is not None:
        sink_log.refuse_taken(sink)
    if into is None and not arguments.dry_run:
        refuse_running(checkpoint)
    progress = ProgressLine(time.monotonic)
    with Proofs() as proofs:
        survey = Survey(checkpoint, proofs.lineage)
        if (
            into is not None
            and arguments.to_batch not in survey.committed
            and arguments.to_batch in pins.pinned(checkpoint)
        ):
            survey = Survey(pins.place_of(checkpoint, arguments.to_batch), proofs.lineage)
        to_batch = arguments.to_batch if arguments.to_batch is not None else _newest_whole(survey, proofs)
        _refuse_no_batch(survey, to_batch)
        if into is None:
            done = _roll_back(arguments, survey, to_batch, progress)
        else:
            done = _make_branch(arguments, survey, to_batch, into, progress)
    if sink is not None and not arguments.dry_run:
        sink_log.begin(sink, to_batch)  # last, so that an interrupted call can be repeated
    if sink is not None and not arguments.json:
        would = "would be" if arguments.dry_run else "is"
        progress.say(f"{sink} {would} a directory for a file sink that begins with batch {to_batch + 1}")
    if arguments.json:
        print_json(done)


def _roll_back(arguments: argparse.Namespace, survey: Survey, to_batch: int, progress: ProgressLine) -> dict[str, Any]:
    interrupted = under_way(survey.checkpoint)
    plan = plan_rollback(survey, to_batch)
    bytes_of_all, files = plan.bytes, len(plan.files)
    what = f"{counted(len(plan.batches), 'batch', 'batches')} ({described(tuple(reversed(plan.batches)))})"
    _refuse_missing(plan.missing_input, arguments)
    if not arguments.dry_run and (plan.files or interrupted is not None):
        rollback.carry_out(
            plan,
            lambda: refuse_running(survey.checkpoint),  # an application may have started meanwhile
            lambda file: None if arguments.json else progress.show(f"removing {file.name}"),
        )
    if not arguments.json:
        would = "would be" if arguments.dry_run else "is"
        progress.say(
            f"{survey.checkpoint} {would} as of batch {to_batch}: undone {what}, {files} files, {size(bytes_of_all)}"
        )
        if plan.batches:
            progress.say(
                f"sinks that remember batches, such as Delta tables and files, leave out those up to {plan.batches[0]}"
                " when they come again. --new-file-sink makes a directory in which a file sink leaves out none:"
                " see docs/guides/checkpoints.md"
            )
    return {
        "checkpoint": str(survey.checkpoint),
        "to-batch": to_batch,
        "undone": list(plan.batches),
        "files": files,
        "bytes": bytes_of_all,
        "missing-input": list(plan.missing_input),
        "done": not arguments.dry_run,
    }


def _make_branch(
    arguments: argparse.Namespace, survey: Survey, to_batch: int, into: Path, progress: ProgressLine
) -> dict[str, Any]:
    plan = plan_branch(survey, to_batch)
    _refuse_missing(plan.missing_input, arguments)
    query = None
    if not arguments.dry_run:
        query = branch.carry_out(plan, into, lambda file: None if arguments.json else progress.show(f"copying {file}"))
    if not arguments.json:
        would = "would be" if arguments.dry_run else "is"
        progress.say(f"{into} {would} a checkpoint as of batch {to_batch}: {len(plan.files)} files, {size(plan.bytes)}")
        if arguments.new_file_sink is None:
            progress.say(
                "a file sink that has later batches leaves them out: --new-file-sink makes a directory for the new run"
            )
    return {
        "checkpoint": str(into),
        "to-batch": to_batch,
        "query": query,
        "files": len(plan.files),
        "bytes": plan.bytes,
        "missing-input": list(plan.missing_input),
        "done": not arguments.dry_run,
    }


def _refuse_missing(files: tuple[str, ...], arguments: argparse.Namespace) -> None:
    if files and not arguments.without_missing_input:
        raise CommandFailed(
            f"{counted(len(files), 'input file')} of later batches {'is' if len(files) == 1 else 'are'} gone, as"
            f" {files[0]}: a query that reads again would go on without {'it' if len(files) == 1 else 'them'}."
            " Put the files back, or say --without-missing-input"
        )


def refuse_running(checkpoint: Path) -> None:
    """CommandFailed while an application works on the checkpoint, by the lease in it."""
    lease = lease_on(checkpoint)
    now = time.time_ns() // 1_000_000
    if lease is not None and lease.holds(now):
        age = (now - lease.at_ms) // 1000
        raise CommandFailed(
            f"the application {lease.application} works on {checkpoint} (seen {age} s ago): stop its query first, or"
            " make a checkpoint beside it with --into"
        )


def _newest_whole(survey: Survey, proofs: Proofs) -> int:
    found = Verification(survey, proofs.fault_of).newest_whole()
    if found is None:
        raise CommandFailed(f"{survey.checkpoint}: no batch is left whose state is whole; nothing was changed")
    return found


def _refuse_no_batch(survey: Survey, to_batch: int) -> None:
    if to_batch not in survey.committed:
        pinned = pins.pinned(survey.checkpoint)
        of_pins = f", or with --into one that is pinned: {described(pinned)}" if pinned else ""
        kept = described(survey.committed)
        raise BadUsage(f"--to-batch {to_batch}: expected a committed batch that is kept: {kept}{of_pins}")
