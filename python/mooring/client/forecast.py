"""Forecasts what would move if hosts came or went, or if processors moved, and what that would cost. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mooring.errors import InvalidJobModelError, InvalidPlanError, InvalidSettingError, RecordError, nearest
from mooring.grouping import (
    DEFAULT_GROUPER,
    GrouperChoice,
    Move,
    MovePlan,
    choose_grouper,
    locations_of_copies,
    plan_job,
    plan_moves,
)
from mooring.model import (
    ContainerModel,
    JobModel,
    TaskMode,
    TaskModel,
    job_model_from_json,
    named_location,
    natural_order,
)
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY

NO_LOCATIONS = (ANY_HOST, LAST_SEEN, STANDBY)
"""Destinations of `place-container` that are no locations; the agent decides where they lead."""


@dataclass(frozen=True)
class Forecast:
    """A plan, and its cost. `bytes_a_second` is the measured rate of fetching state, None where none was measured.

    `copies` are pairs of a task and a location with a warm copy of it. `notes` say why a wanted move would be refused.
    """

    before: JobModel
    after: JobModel
    plan: MovePlan
    bytes_a_second: float | None
    copies: frozenset[tuple[str, str]] = frozenset()
    notes: tuple[str, ...] = ()

    def has_copy(self, move: Move) -> bool:
        """Whether a warm copy of the task is at its destination."""
        return (move.task_name, move.destination_location) in self.copies

    def fetches(self, move: Move) -> bool:
        """Whether neither the state of the task nor a copy of it is at the destination."""
        return not move.stays_at_location and not self.has_copy(move)

    @property
    def to_fetch(self) -> list[Move]:
        """The moves that fetch state."""
        return [move for move in self.plan.moves if self.fetches(move)]

    @property
    def bytes_to_fetch(self) -> int | None:
        """The bytes of all moves that fetch state; None when the size of one is not known."""
        sizes = [move.state_bytes for move in self.to_fetch]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def seconds(self) -> float | None:
        """The time until all state is fetched; None when a size or the rate is not known.

        Processors fetch side by side, and each fetches its tasks one after the other.
        """
        if not self.to_fetch:
            return 0.0
        if self.bytes_to_fetch is None or not self.bytes_a_second:
            return None
        load: dict[str, int] = {}
        for move in self.to_fetch:
            load[move.destination_processor] = load.get(move.destination_processor, 0) + (move.state_bytes or 0)
        return round(max(load.values()) / self.bytes_a_second, 1)


def forecast(
    before: JobModel,
    locality: Mapping[str, str],
    status: Mapping[str, Any],
    add: Collection[str],
    remove: Collection[str],
    move: Collection[str] = (),
    sizes_listed: Mapping[str, int] | None = None,
) -> Forecast:
    """Plan as the agent would after the moves (`ID=HOST`), without the removed hosts and with the added ones.

    `sizes_listed` has the bytes of tasks that have no size in the status. No task goes to a drained host while there is
    another host. InvalidPlanError for an unknown processor or host, for a move to a drained host, and when no host
    would be left.
    """
    drained = frozenset(host["location"] for host in status.get("drained-hosts", []))
    moved = _moved(before, move, drained)
    spare = {processor["id"] for processor in status.get("processors", []) if processor.get("spare")}
    locations = _open_locations(_locations(moved, add, remove), spare, drained)
    measured = {
        task["name"]: task["local-bytes"] for task in status.get("tasks", []) if task.get("local-bytes") is not None
    }
    sizes = {**(sizes_listed or {}), **measured}
    choice = _grouper_of(before)
    weights = sizes or None if choice.by_bytes else None
    after = moved
    if add or remove or not move:
        wishes = {**locality, **locations_of_copies(locality, locations, moved)}
        after = plan_job(queries_of(before), locations, wishes, moved, weights, choice.make)
    rate = _measured_rate(status.get("counters", {}))
    copies = _warm_copies(before, status)
    return Forecast(before, after, plan_moves(before, after, sizes), rate, copies, _notes(before, move))


def newest_with_tasks(models: Mapping[int, bytes]) -> JobModel:
    """The newest job model that has tasks, else the newest one. A job model has no tasks of queries that have ended.

    `models` maps versions to JSON texts. InvalidJobModelError when the newest one is damaged.
    """
    versions = sorted(models, reverse=True)
    newest = job_model_from_json(models[versions[0]])
    for version in versions:
        with suppress(InvalidJobModelError):
            model = job_model_from_json(models[version])
            if any(container.tasks for container in model.containers.values()):
                return model
    return newest


def _open_locations(
    locations: Mapping[str, str], spare: Collection[str], drained: Collection[str]
) -> Mapping[str, str]:
    """The locations that tasks may go to: spare processors and drained hosts only where there is no other one."""
    open_locations = {id: location for id, location in locations.items() if location not in drained}
    no_spares = {id: location for id, location in open_locations.items() if id not in spare}
    return (
        no_spares
        or open_locations
        or {id: location for id, location in locations.items() if id not in spare}
        or locations
    )


def _moved(model: JobModel, moves: Collection[str], drained: Collection[str]) -> JobModel:
    """The job model with these processors at other locations."""
    known = sorted(model.containers, key=natural_order)
    to: dict[str, str] = {}
    for text in moves:
        id, equals, host = text.partition("=")
        if not equals or not host.strip():
            raise InvalidPlanError(
                f"--move {text}: expected a processor and a host, such as {known[0] if known else 4}=10.0.0.7"
            )
        if id not in known:
            raise InvalidPlanError(
                f"--move {text}: there is no processor {id}: expected one of {', '.join(known)}{nearest(id, known)}"
            )
        if host in drained:
            open_hosts = [location for location in hosts_of(model) if location not in drained]
            raise InvalidPlanError(
                f"--move {text}: host {host} is drained: expected an open one{nearest(host, open_hosts)}"
            )
        if host in NO_LOCATIONS:
            raise InvalidPlanError(f"--move {text}: expected a location, such as {hosts_of(model)[0]}")
        to[id] = host
    containers = [
        ContainerModel.of(id, container.tasks.values(), named_location(to.get(id, container.location_id or "")))
        for id, container in model.containers.items()
    ]
    return replace(model, containers=JobModel.of(containers).containers)


def _copies_at(model: JobModel, id: str, host: str) -> list[str]:
    """The tasks of a processor that have a copy at this location, in natural order."""
    actives = model.containers[id].actives
    held = (
        task.standby_of
        for container in model.containers.values()
        if container.location_id == host
        for task in container.tasks.values()
        if task.standby_of in actives
    )
    return sorted((name for name in held if name is not None), key=natural_order)


def _notes(model: JobModel, moves: Collection[str]) -> tuple[str, ...]:
    """A sentence for each of these moves (`ID=HOST`) that `place-container` would refuse."""
    wanted = [(id, host) for id, _, host in (text.partition("=") for text in moves)]
    held = [(id, host, _copies_at(model, id, host)) for id, host in wanted]
    return tuple(
        f"place-container refuses {host} by name for processor {id}, as a copy of {copies[0]} is there: {STANDBY} takes"
        f" over where most copies are; or place the copies elsewhere first ({id}-0 is the first standby)"
        for id, host, copies in held
        if copies
    )


def _warm_copies(model: JobModel, status: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Pairs of task and location for each copy that is at most one version behind, by the status."""
    task_of = {
        task.task_name: task.standby_of
        for container in model.containers.values()
        for task in container.tasks.values()
        if task.standby_of is not None
    }
    return frozenset(
        (task_of[task["name"]], task["location"])
        for task in status.get("tasks", [])
        if task["name"] in task_of and task.get("local-bytes") and (task.get("lag-versions") or 0) <= 1
    )


def _grouper_of(model: JobModel) -> GrouperChoice:
    """The grouper that made the model. RecordError for a user's class that this process can not load."""
    name = model.config.get("spark.mooring.grouper", DEFAULT_GROUPER.name)
    try:
        return choose_grouper(name, model.config.get("spark.mooring.grouper.weights", "tasks"))
    except InvalidSettingError as fault:
        raise RecordError(f"the job's grouper is needed to plan as it does: {fault}") from fault


def queries_of(model: JobModel) -> dict[str, frozenset[TaskModel]]:
    """Query to its active tasks. The query is in the streams of a task's stores, `<query>/<operator>/<store>`."""
    queries: dict[str, set[TaskModel]] = {}
    for container in model.containers.values():
        for task in container.tasks.values():
            if task.task_mode is TaskMode.ACTIVE:
                queries.setdefault(_query_of(task), set()).add(task)
    return {query: frozenset(tasks) for query, tasks in queries.items()}


def as_json(outlook: Forecast) -> dict[str, Any]:
    """The forecast as a JSON object; other tools may rely on its keys."""
    return {
        "version": outlook.before.version,
        "hosts-before": hosts_of(outlook.before),
        "hosts-after": hosts_of(outlook.after),
        "tasks": sum(len(container.tasks) for container in outlook.after.containers.values()),
        "tasks-to-move": len(outlook.plan.moves),
        "tasks-to-fetch": len(outlook.to_fetch),
        "bytes-to-fetch": outlook.bytes_to_fetch,
        "bytes-a-second": None if outlook.bytes_a_second is None else round(outlook.bytes_a_second),
        "estimated-seconds": outlook.seconds,
        "moves": [
            {
                "task": move.task_name,
                "from": {"processor": move.source_processor, "location": move.source_location},
                "to": {"processor": move.destination_processor, "location": move.destination_location},
                "bytes": move.state_bytes,
                "copy-is-there": outlook.has_copy(move),
                "fetches": outlook.fetches(move),
            }
            for move in outlook.plan.moves
        ],
        "notes": list(outlook.notes),
    }


def _locations(model: JobModel, add: Collection[str], remove: Collection[str]) -> dict[str, str]:
    """Processor id to location after the change. An added host gets one new processor."""
    locations = {id: container.location_id or "" for id, container in model.containers.items()}
    known = sorted(set(locations.values()), key=natural_order)
    for host in remove:
        if host not in known:
            raise InvalidPlanError(f"--remove-host {host}: expected one of {', '.join(known)}{nearest(host, known)}")
    left = {id: location for id, location in locations.items() if location not in set(remove)}
    taken = set(locations)
    for host in add:
        if not host.strip():
            raise InvalidPlanError("--add-host is empty: expected the name or address of a host")
        processor = next(str(number) for number in range(len(taken) + 1) if str(number) not in taken)
        taken.add(processor)
        left[processor] = host
    if not left:
        raise InvalidPlanError(
            f"--remove-host {' --remove-host '.join(remove)}: no host would be left; expected at least one to stay"
        )
    return left


def _query_of(task: TaskModel) -> str:
    return min((store.stream.rsplit("/", 2)[0] for store in task.system_stream_partitions), default="")


def _measured_rate(counters: Mapping[str, Any]) -> float | None:
    fetched, milliseconds = counters.get("restore-bytes-remote", 0), counters.get("restore-ms", 0)
    return fetched / milliseconds * 1000 if fetched and milliseconds else None


def hosts_of(model: JobModel) -> list[str]:
    """The locations of a model's processors, each once, in natural order."""
    return sorted({container.location_id or "unknown" for container in model.containers.values()}, key=natural_order)
