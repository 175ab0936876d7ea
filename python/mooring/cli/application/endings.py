"""What `mooring drain` and `mooring stop` share: ask an application to end its queries, and wait until it has."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from mooring.agent.drains.drainage import FAILED, NOT_TOLD, OVER, REFUSED
from mooring.cli.application.life import ApplicationLife
from mooring.cli.application.requests import application_of
from mooring.cli.exits import CommandFailed, CommandTimedOut
from mooring.cli.output import ProgressLine, print_json
from mooring.cli.records import CommandRecords
from mooring.client import MooringClient
from mooring.client.liveness import liveness_of
from mooring.errors import nearest
from mooring.model.names import natural_order
from mooring.settings.notation import format_duration

_LOOK_EVERY_SECONDS = 0.5
_STATUS_IS_LATE_BY_SECONDS: Final = 3
"""A query that has just started is in the status at most this much later."""

_FINAL: Final = (*OVER, REFUSED, FAILED, NOT_TOLD)


def end_queries(
    arguments: argparse.Namespace, what: str, ask: Callable[[MooringClient, str], UUID], wanted: Sequence[str]
) -> None:
    """Write a request to end queries, and with `--wait` show how far each is until its end.

    `what` is "drain" or "stop", and `ask` writes the request. `wanted` has the phases that count as success, the usual
    one last. CommandFailed when a query ends otherwise, or none has that name; CommandTimedOut when it takes longer.
    """
    timeout_ms: int = arguments.timeout
    records = CommandRecords.named_by(arguments)
    status = records.status() if arguments.deployment_id is None else records.status_if_any()
    deployment = arguments.deployment_id or application_of(records, status)
    if status.get("application") == deployment and _has_so_ended(wanted, arguments.query, status):
        _report_ended(arguments, what, deployment, status)
        return
    life = ApplicationLife(records, arguments.deployment_id)
    status = life.begin(status)
    if arguments.query is not None and arguments.deployment_id is None:
        status = _with_query(records, arguments.query, status)
    client = records.client()
    uuid = ask(client, deployment)
    progress = ProgressLine(time.monotonic)
    if not arguments.json:
        progress.say(f"{what} {uuid}: {arguments.query or 'all queries'} of {deployment}")
    deadline = time.monotonic() + timeout_ms / 1000
    shown: dict[str, tuple[str, str]] = {}  # by the query's id: its phase, and the line about it
    with progress:
        while arguments.wait and client.is_drain_open(uuid) and not _is_over(arguments.query, status):
            left = deadline - time.monotonic()
            if left <= 0:
                unfinished = _under_way(arguments.query, status)
                raise CommandTimedOut(
                    f"{what} {uuid} is not over after {format_duration(timeout_ms)}{unfinished}; it goes on"
                )
            time.sleep(min(_LOOK_EVERY_SECONDS, left))
            status = records.status_if_any() or status
            if life.liveness(status).is_given_up and arguments.deployment_id in (None, status.get("application")):
                break
            if not arguments.json:
                _show_changes(_rows(arguments.query, status), shown, progress)
        status = records.status_if_any() or status
        if arguments.wait and not arguments.json:
            _show_changes(_rows(arguments.query, status), shown, progress)
    rows = _rows(arguments.query, status)
    if arguments.json:
        print_json({"uuid": str(uuid), "drains": rows})
    if arguments.wait:
        if not rows:
            life.raise_if_ended(status)
        _refuse_unless(wanted, arguments.query, rows)
        if not _has_so_ended(wanted, arguments.query, status):
            life.raise_if_ended(status)


def _with_query(records: CommandRecords, query: str, status: dict[str, Any]) -> dict[str, Any]:
    """The status, once it has the query, by name or id. CommandFailed where it has only others for three seconds."""
    deadline = time.monotonic() + _STATUS_IS_LATE_BY_SECONDS
    while (running := status.get("queries", [])) and not _knows(status, query):
        if time.monotonic() > deadline:
            names = sorted({row["name"] for row in running}, key=natural_order)
            raise CommandFailed(
                f"{query}: no query of {status['application']} has this name or id; expected one of:"
                f" {', '.join(names)}{nearest(query, names)}"
            )
        time.sleep(_LOOK_EVERY_SECONDS)
        status = records.status_if_any() or status
    return status


def _knows(status: dict[str, Any], query: str) -> bool:
    listed = [(row["id"], row["name"]) for row in status.get("queries", [])]
    return any(query in names for names in [*listed, *((row["id"], row["query"]) for row in status.get("drains", []))])


def _show_changes(rows: Sequence[dict[str, Any]], shown: dict[str, tuple[str, str]], progress: ProgressLine) -> None:
    """A line that stays for each query in a new phase; how far one is within its phase replaces the line before."""
    for row in rows:
        id, phase, line = row["id"], row["phase"], _in_words(row)
        phase_before, line_before = shown.get(id, ("", ""))
        if phase != phase_before:
            progress.say(line)
        elif line != line_before:
            progress.show_change(line)
        shown[id] = phase, line


def _refuse_unless(wanted: Sequence[str], query: str | None, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        raise CommandFailed(
            f"nothing was {wanted[-1]}: no query{f' {query}' if query else ''} ran; the driver's log says more"
        )
    faults = [_fault(row, wanted[-1]) for row in rows if row["phase"] not in wanted]
    if faults:
        done = ", ".join(row["query"] for row in rows if row["phase"] in wanted) or "none"
        raise CommandFailed("\n".join([*faults, f"{wanted[-1]}: {done}"]))


def _fault(row: dict[str, Any], wanted: str) -> str:
    """Why a query has not ended as it was asked to."""
    query, phase, reason = row["query"], row["phase"], row.get("reason", "")
    if phase == FAILED:
        return f"query {query} ended before it was {wanted}: {reason}; the driver's log has all of the error"
    if phase == NOT_TOLD:
        return f"query {query} is not {wanted}, and was not told: {reason}"
    if phase in _FINAL:
        return f"query {query} is not {wanted} but {phase}{': ' if reason else ''}{reason}"
    return f"query {query} is not {wanted}: its last known phase is {phase}; the driver's log says more"


def _has_so_ended(wanted: Sequence[str], query: str | None, status: dict[str, Any]) -> bool:
    """Whether the application has ended, and each query that is meant had ended as wanted by then."""
    rows = {row["id"]: row["phase"] for row in _rows(query, status)}
    still_running = [row["id"] for row in status.get("queries", []) if query in (None, row["id"], row["name"])]
    return "ended" in status and bool(rows) and all(rows.get(id) in wanted for id in {*rows, *still_running})


def _report_ended(arguments: argparse.Namespace, what: str, deployment: str, status: dict[str, Any]) -> None:
    """Show how each query of an ended application has ended."""
    rows = _rows(arguments.query, status)
    if arguments.json:
        print_json({"uuid": None, "drains": rows})
        return
    print(f"{what}: nothing is left to do: {deployment} {liveness_of(status, time.time_ns() // 1_000_000).in_words}")
    for row in rows:
        print(_in_words(row))


def _is_over(query: str | None, status: dict[str, Any]) -> bool:
    """Whether each running query is at its end: the application may end before its agent removes the request."""
    rows = {row["id"]: row for row in _rows(query, status)}
    running = [row["id"] for row in status.get("queries", []) if query in (None, row["id"], row["name"])]
    return bool(running) and all(rows.get(id, {}).get("phase") in (*OVER, REFUSED) for id in running)


def _rows(query: str | None, status: dict[str, Any]) -> list[dict[str, Any]]:
    """How far the current run of each query is. Rows about an earlier run are left out."""
    runs = {row["id"]: row.get("run-id") for row in status.get("queries", [])}

    def is_current(row: dict[str, Any]) -> bool:
        run = runs.get(row["id"])
        return run is None or row.get("run-id", run) == run

    return [row for row in status.get("drains", []) if query in (None, row["id"], row["query"]) and is_current(row)]


def _under_way(query: str | None, status: dict[str, Any]) -> str:
    left = [f"{row['query']} ({row['phase']})" for row in _rows(query, status) if row["phase"] not in _FINAL]
    return f"; under way: {', '.join(left)}" if left else ""


def _in_words(row: dict[str, Any]) -> str:
    if row["phase"] in (REFUSED, FAILED, NOT_TOLD):
        return f"{row['query']}: {row['phase'].replace('-', ' ')}: {row['reason']}"
    return (
        f"{row['query']}: {row['phase']} at batch {row['batch']},"
        f" after {row['batches']} batches with {row['rows']} rows;"
        f" {row['state-rows-flushed']} rows of state went, {row['state-rows-left']} are left"
    )
