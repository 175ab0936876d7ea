"""The JVM's news: from their JSON to events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mooring.model.events import (
    OUR_PROVIDER,
    ApplicationStarted,
    BatchBegan,
    BatchEnded,
    CheckpointLeft,
    CheckpointTaken,
    CopiesSeen,
    CopyOfState,
    DrainOwed,
    DrainProgressed,
    DriverStarting,
    Event,
    ExecutorLost,
    ExecutorRegistered,
    ExecutorRestarting,
    OffersWithheld,
    PlanInForce,
    PlanPickedUp,
    QueryEnded,
    QueryIdle,
    QueryPlanned,
    QueryStarting,
    RestartGivenUp,
    StateMeasured,
    StoreOpened,
    StoresFetched,
    TaskRun,
    TerminationAsked,
)


def read_event(form: Mapping[str, Any]) -> Event | None:
    """The event of one JSON object; None for a kind that this version does not know.

    KeyError for a missing field.
    """
    reader = _READERS.get(form["event"])
    return None if reader is None else reader(form)


def _driver_starting(form: Mapping[str, Any]) -> Event:
    return DriverStarting(form["at"], form["name"], form["driver-host"], dict(form["settings"]))


def _application(form: Mapping[str, Any]) -> Event:
    return ApplicationStarted(
        form["at"],
        form["application"],
        form["name"],
        dict(form["settings"]),
        form["checkpoint-location"],
        form.get("catalogued", False),
        form.get("attempt", ""),
        spark=form.get("spark", ""),
        built_for=form.get("built-for", ""),
        java=form.get("java", 0),
        locality_wait_ms=form.get("locality-wait", 3_000),
    )


def _plan_in_force(form: Mapping[str, Any]) -> Event:
    plan: dict[str, Any] = json.loads(form["plan"]) if form["plan"] else {"version": 0, "queries": {}}
    wanted = {
        (query, int(partition)): executors[0]
        for query, rows in plan["queries"].items()
        for partition, executors in rows.items()
        if executors
    }
    return PlanInForce(form["at"], plan["version"], wanted, form.get("offered", -1))


def _query_planned(form: Mapping[str, Any]) -> Event:
    partitions = {operator["id"]: operator["partitions"] for operator in form["operators"]}
    return QueryPlanned(
        form["at"],
        form["query"],
        form["run"],
        form["name"],
        form["checkpoint"],
        form["batch"],
        partitions,
        form.get("provider", OUR_PROVIDER),
    )


def _batch_ended(form: Mapping[str, Any]) -> Event:
    placements = {placement["partition"]: placement["executor"] for placement in form["placements"]}
    return BatchEnded(
        form["at"],
        form["query"],
        form["batch"],
        form["milliseconds"],
        placements,
        form["planned"],
        form["as-planned"],
        form["state-bytes"],
        {one["partition"]: _task_run(one) for one in form["placements"] if "milliseconds" in one},
        frozenset(form.get("not-placed", ())),
    )


def _task_run(form: Mapping[str, Any]) -> TaskRun:
    return TaskRun(
        form["wanted"], form["milliseconds"], form["rows"], form["speculative"], frozenset(form.get("failed-on", ()))
    )


def _drain_progressed(form: Mapping[str, Any]) -> Event:
    counted = ("batch", "batches", "rows", "flushes", "flushed", "left")
    counts = {field: form[field] for field in counted if field in form}
    return DrainProgressed(
        form["at"],
        form["query"],
        form["run"],
        form["phase"],
        **counts,
        reason=form.get("reason", ""),
        name=form.get("name", ""),
        writes=tuple(form.get("writes", ())),
    )


def _store_opened(form: Mapping[str, Any]) -> Event:
    counts = ("local-files", "local-bytes", "remote-files", "remote-bytes", "local-changelogs", "remote-changelogs")
    opened = StoreOpened(
        form["at"],
        form["executor"],
        form["store"],
        form["version"],
        form["milliseconds"],
        *(form[count] for count in counts),
    )
    return replace(opened, ahead_ms=form.get("ahead-milliseconds", 0))


def _copies_seen(form: Mapping[str, Any]) -> Event:
    fields = ("partition", "executor", "version", "lag-ms", "bytes", "fetched-bytes")
    copies = tuple(
        replace(
            CopyOfState(*(copy[field] for field in fields)),
            trouble=copy.get("trouble", ""),
            trouble_ms=copy.get("trouble-ms", 0),
        )
        for copy in form["copies"]
    )
    return CopiesSeen(form["at"], form["query"], form["version"], copies)


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Event]] = {
    "PlanInForce": _plan_in_force,
    "DriverStarting": _driver_starting,
    "ApplicationStarted": _application,
    "ExecutorRegistered": lambda form: ExecutorRegistered(
        form["at"], form["executor"], form["location"], form["cores"], form.get("zone", "")
    ),
    "ExecutorLost": lambda form: ExecutorLost(form["at"], form["executor"], form["reason"]),
    "OffersWithheld": lambda form: OffersWithheld(form["at"], dict(form["executors"])),
    "PlanPickedUp": lambda form: PlanPickedUp(form["at"], form["executor"], form["version"]),
    "ExecutorRestarting": lambda form: ExecutorRestarting(form["at"], form["request"], form["executor"]),
    "RestartGivenUp": lambda form: RestartGivenUp(form["at"], form["request"], form["executor"]),
    "QueryStarting": lambda form: QueryStarting(form["at"], form["query"], form["run"], form["checkpoint"]),
    "QueryPlanned": _query_planned,
    "BatchBegan": lambda form: BatchBegan(form["at"], form["query"], form["batch"]),
    "QueryIdle": lambda form: QueryIdle(form["at"], form["query"]),
    "BatchEnded": _batch_ended,
    "QueryEnded": lambda form: QueryEnded(form["at"], form["query"], form["run"], form["error"]),
    "DrainProgressed": _drain_progressed,
    "DrainOwed": lambda form: DrainOwed(form["at"], form["query"], frozenset(form["after"]), form.get("held", False)),
    "CheckpointTaken": lambda form: CheckpointTaken(form["at"], form["run"], form["checkpoint"]),
    "CheckpointLeft": lambda form: CheckpointLeft(form["at"], form["run"]),
    "TerminationAsked": lambda form: TerminationAsked(form["at"]),
    "StoreOpened": _store_opened,
    "StoresFetched": lambda form: StoresFetched(
        form["at"], form["executor"], form["query"], form["done"], form["of"], form["bytes"], form["milliseconds"]
    ),
    "StateMeasured": lambda form: StateMeasured(form["at"], form["executor"], form["store"], form["bytes"]),
    "CopiesSeen": _copies_seen,
}
