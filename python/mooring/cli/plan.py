"""`mooring plan`: what would move if hosts came or went, or processors moved. It reads records and changes nothing."""

from __future__ import annotations

import argparse
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from mooring.catalogue.table import newest_bytes, own_table
from mooring.checkpoint import Proofs, Survey, query_id, state_table
from mooring.cli import options
from mooring.cli.checkpoint_place import INSTEAD, catalogue_in, checkpoint_directory, local_path
from mooring.cli.exits import BadUsage
from mooring.cli.output import counted, print_json, size, table
from mooring.cli.records import METADATA_VARIABLE, CommandRecords, Place
from mooring.client.forecast import Forecast, as_json, forecast, hosts_of, queries_of
from mooring.model import JobModel, natural_order

NAME: Final = "plan"
HELP: Final = "show what would move if hosts came or went, or processors moved; change nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser, has_own_checkpoint=True)
    parser.add_argument(
        "--add-host", metavar="HOST", action="append", default=[], help="a host that would join; may be repeated"
    )
    parser.add_argument(
        "--remove-host", metavar="HOST", action="append", default=[], help="a host that would leave; may be repeated"
    )
    parser.add_argument(
        "--move", metavar="ID=HOST", action="append", default=[], help="a processor that would move; may be repeated"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="[QUERY=]CHECKPOINT",
        action="append",
        default=[],
        help="the checkpoint of one query: its Delta catalogue has the sizes of tasks that the status does not know;"
        " starts a Spark on this machine; may be repeated",
    )
    options.add_catalog_table(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Make the forecast, and print it. InvalidPlanError for hosts or processors that make no sense."""
    is_named = arguments.metadata or arguments.metadata_conf or os.environ.get(METADATA_VARIABLE)
    by_checkpoint = None if is_named or not arguments.checkpoint else _directory_in(arguments.checkpoint[0])
    records = CommandRecords(Place.of("--metadata", arguments.metadata, arguments.metadata_conf, by_checkpoint))
    before, locality, status = records.job_model(), records.task_locality(), records.status_if_any()
    if arguments.catalog_table and not arguments.checkpoint:
        raise BadUsage("--catalog-table: expected --checkpoint too, of the queries whose tasks are meant")
    listed = arguments.checkpoint
    if by_checkpoint and not arguments.catalog_table:  # a checkpoint that names the records may have no catalogue
        listed = [
            checkpoint
            for checkpoint in listed
            if own_table(local_path("--checkpoint", _directory_in(checkpoint), INSTEAD))
        ]
    sizes = _sizes_listed(before, status, listed, arguments.catalog_table)
    outlook = forecast(before, locality, status, arguments.add_host, arguments.remove_host, arguments.move, sizes)
    if arguments.json:
        print_json(as_json(outlook))
    else:
        print(as_text(outlook))


def _sizes_listed(
    model: JobModel, status: Mapping[str, Any], checkpoints: Collection[str], table: str | None
) -> dict[str, int]:
    """Task to bytes, by the catalogues of these queries.

    BadUsage for a checkpoint without a catalogue, and for one of a query that the job does not have.
    """
    if not checkpoints:
        return {}
    tasks_of = queries_of(model)
    found: dict[str, int] = {}
    named = [_query_and_directory(checkpoint, tasks_of, status) for checkpoint in checkpoints]
    tables = [table or catalogue_in(directory, "--checkpoint") for _, directory in named]
    with Proofs() as proofs, state_table.session({}) as spark:
        for (query, directory), catalogue in zip(named, tables, strict=True):
            survey = Survey(directory, proofs.lineage)
            sizes = newest_bytes(spark, catalogue, query_id(directory), survey.ids_of_batches, survey.newest_commit)
            known = [task for task in tasks_of[query] if task.changelog_partition in sizes]
            found |= {task.task_name: sizes[task.changelog_partition] for task in known}
    return found


def _directory_in(text: str) -> str:
    """The directory of `[QUERY=]CHECKPOINT`, which may have a = in its own name."""
    query, equals, rest = text.partition("=")
    return rest if equals and "/" not in query else text


def _query_and_directory(text: str, queries: Collection[str], status: Mapping[str, Any]) -> tuple[str, Path]:
    """The query of `[QUERY=]CHECKPOINT`, and its directory.

    The query is named, or found by the status, or the only one. Else BadUsage, also for a query that is not in the plan
    because it ended before those that are.
    """
    name, equals, rest = text.partition("=")
    if equals and name in queries:
        return name, checkpoint_directory("--checkpoint", rest, INSTEAD)
    directory = checkpoint_directory("--checkpoint", text, INSTEAD)
    id = query_id(directory)
    shown = {row["id"]: row["name"] or row["id"] for row in status.get("queries", [])}
    query = shown.get(id, id)
    if query in queries:
        return query, directory
    if not shown and len(queries) == 1:
        return next(iter(queries)), directory
    planned = sorted(queries, key=natural_order)
    if id in shown:
        raise BadUsage(
            f"--checkpoint {text}: query {query} is not in the newest plan, as it has ended: expected the checkpoint of"
            f" {' or '.join(planned)}"
        )
    expected = ", ".join(f"{label}={directory}" for label in planned)
    raise BadUsage(
        f"--checkpoint {text}: the job's records do not say which query it belongs to; expected one of {expected}"
    )


def as_text(outlook: Forecast) -> str:
    """The forecast for people."""
    tasks = sum(len(container.tasks) for container in outlook.after.containers.values())
    if not tasks:
        return "there is nothing to plan: no stateful query has run"
    now, then = ", ".join(hosts_of(outlook.before)), ", ".join(hosts_of(outlook.after))
    hosts = f"from version {outlook.before.version}; hosts now: {now}; after: {then}"
    if not outlook.plan.moves:
        return f"{hosts}\nnothing would move: {counted(tasks, 'task')} stay where they are; nothing was changed"
    rows = [
        (
            move.task_name,
            _shown(move.source_processor, move.source_location),
            _shown(move.destination_processor, move.destination_location),
            size(move.state_bytes),
            "yes" if outlook.has_copy(move) else "no",
            "yes" if outlook.fetches(move) else "no",
        )
        for move in outlook.plan.moves
    ]
    moving = len(outlook.plan.moves)
    total = size(outlook.bytes_to_fetch) or "bytes not known"
    time = "time not known (nothing was fetched yet)" if outlook.seconds is None else f"about {outlook.seconds:g} s"
    return "\n".join(
        [
            hosts,
            table(("task", "from", "to", "bytes", "copy-is-there", "fetches"), rows),
            f"{moving} of {counted(tasks, 'task')} would move, {len(outlook.to_fetch)} would fetch state: "
            f"{total}, {time}; nothing was changed",
            *outlook.notes,
        ]
    )


def _shown(processor: str | None, location: str | None) -> str:
    return "nowhere" if processor is None else f"{processor} on {location or 'unknown'}"
