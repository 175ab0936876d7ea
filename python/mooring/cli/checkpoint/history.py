"""`mooring history CHECKPOINT`: the committed batches, and those that the query can go back to."""

from __future__ import annotations

import argparse
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from mooring.catalogue.table import CataloguedBatch, batches_listed
from mooring.checkpoint import Proofs, Survey, described, lease_on, query_id, state_table, under_way
from mooring.checkpoint.pins import pinned
from mooring.cli import options
from mooring.cli.checkpoint_place import INSTEAD, catalogue_in, checkpoint_directory
from mooring.cli.output import print_json, size, table

NAME: Final = "history"
HELP: Final = "list the batches of a checkpoint, and those that its query can go back to"

_NOT_UNDERSTOOD = "not understood"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_checkpoint(parser)
    parser.add_argument(
        "--catalog",
        action="store_true",
        help="add what the Delta catalogue knows: older batches, and keys; starts a Spark on this machine",
    )
    options.add_catalog_table(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the batches, oldest first. BadUsage when the directory is no checkpoint."""
    checkpoint = checkpoint_directory("CHECKPOINT", arguments.checkpoint, INSTEAD)
    with Proofs() as proofs:
        survey = Survey(checkpoint, proofs.lineage)
        batches = [_batch(survey, batch) for batch in survey.committed]
        faults = [fault.text for fault in survey.log_faults]
    with_catalogue = bool(arguments.catalog or arguments.catalog_table)
    if with_catalogue:
        catalogue = arguments.catalog_table or catalogue_in(checkpoint, "--catalog")
        batches = _with_catalogue(batches, _of_this_history(_listed(checkpoint, catalogue, survey), survey))
    lease = lease_on(checkpoint)
    runs = lease is not None and lease.holds(time.time_ns() // 1_000_000)
    found = {
        "checkpoint": str(checkpoint),
        "query": query_id(checkpoint),
        "application": lease.application if lease is not None and runs else None,
        "restoring-to": under_way(checkpoint),
        "batches": batches,
        "pinned": list(pinned(checkpoint)),
        "faults": faults,
    }
    if arguments.json:
        print_json(found)
    else:
        _show(found, with_catalogue)


def _listed(checkpoint: Path, table: str, survey: Survey) -> list[CataloguedBatch]:
    with state_table.session({}) as spark:
        return batches_listed(spark, table, query_id(checkpoint), survey.ids_of_batches)


def _of_this_history(listed: list[CataloguedBatch], survey: Survey) -> list[CataloguedBatch]:
    """The batches of the catalogue that the checkpoint has, or had once and has not undone.

    A batch that is newer than all of the checkpoint was committed after the checkpoint was read, or was undone by a
    restore. Where the commit log has no entry, all batches are listed: the log was lost.
    """
    newest = survey.newest_commit
    return [entry for entry in listed if newest is None or entry.batch <= newest]


def _with_catalogue(batches: list[dict[str, Any]], listed: list[CataloguedBatch]) -> list[dict[str, Any]]:
    """Add what only the catalogue knows: times of commits, keys, bytes, and batches that the checkpoint lacks."""
    known = {batch["batch"]: batch for batch in batches}
    for entry in listed:
        offsets = None if entry.offsets is None else {str(number): text for number, text in enumerate(entry.offsets)}
        lacking = {
            "batch": entry.batch,
            "begun-at": None,
            "committed-at": None,
            "watermark": entry.watermark_ms,
            "offsets": offsets,
            "keys": None,
            "bytes": None,
            "drained": False,
            "whole": "no",
            "obstacles": ["the checkpoint no longer has it"],
        }
        batch = known.setdefault(entry.batch, lacking)
        batch["keys"] = entry.keys if batch["keys"] is None else batch["keys"]
        batch["bytes"] = entry.bytes if batch["bytes"] is None else batch["bytes"]
        batch["committed-at"] = entry.committed_ms
    return [known[number] for number in sorted(known)]


def _batch(survey: Survey, batch: int) -> dict[str, Any]:
    commit, begun, judgement = survey.commits.get(batch), survey.begun.get(batch), survey.judgement_of(batch)
    is_drained = survey.is_flushed(batch)
    return {
        "batch": batch,
        "begun-at": None if begun is None else begun.at_ms or None,
        "committed-at": None if commit is None else commit.at_ms,
        "watermark": None if commit is None else commit.watermark_ms,
        "offsets": None if begun is None else dict(begun.offsets),
        "keys": survey.keys(batch),
        "bytes": survey.state_bytes(batch),
        "drained": is_drained,
        "whole": "drained" if is_drained and judgement.verdict == "yes" else judgement.verdict,
        "obstacles": list(judgement.reasons),
    }


def _show(found: dict[str, Any], with_catalogue: bool) -> None:
    """Print for people. Only the catalogue has true times of commits: a copy of a checkpoint has new times of files."""
    times = ("begun-at (UTC)", "committed-at (UTC)") if with_catalogue else ("begun-at (UTC)",)
    rows = [
        (
            batch["batch"],
            _time(batch["begun-at"]),
            *([_time(batch["committed-at"])] if with_catalogue else []),
            _time(batch["watermark"]),
            batch["keys"],
            size(batch["bytes"]),
            batch["whole"],
            _in_words(batch["offsets"]),
        )
        for batch in found["batches"]
    ]
    print(table(("batch", *times, "watermark (UTC)", "keys", "bytes", "whole", "offsets"), rows))
    print(
        f"can go back to: {described(tuple(batch['batch'] for batch in found['batches'] if batch['whole'] == 'yes'))}"
    )
    not_whole = [batch for batch in found["batches"] if batch["whole"] == "no"]
    if not_whole:
        print(f"not whole: batch {not_whole[-1]['batch']}: {not_whole[-1]['obstacles'][0]}")
    unknown = [batch for batch in found["batches"] if batch["whole"] == _NOT_UNDERSTOOD]
    if unknown:
        batches = described(tuple(batch["batch"] for batch in unknown))
        print(f"batch {batches}: {unknown[-1]['obstacles'][0]}; it may be good")
    if found["pinned"]:
        print(f"pinned, for --into: {described(tuple(found['pinned']))}")
    if found["application"]:
        print(f"the application {found['application']} works on it")
    if found["restoring-to"] is not None:
        print(f"a restore to batch {found['restoring-to']} was interrupted: mooring restore --to-batch goes on with it")
    for fault in found["faults"]:
        print(fault)


def _time(at_ms: int | None) -> str | None:
    if not at_ms:
        return None
    return datetime.fromtimestamp(at_ms / 1000, timezone.utc).isoformat(sep=" ", timespec="milliseconds")[:23]


def _in_words(offsets: dict[str, str | None] | None) -> str | None:
    return None if offsets is None else " ".join("-" if offset is None else offset for offset in offsets.values())
