"""From the fleet to its next job model.

Pure; every plan is checked by code that shares nothing with the planner.

With standbys there are two kinds of plan. The *resting* one leaves every active where it is, gives those that have no
place one, and assigns the copies anew; the *evened* one groups the actives as well. While a processor waits for an
executor, plans are resting ones. When all have one, plans are evened ones, but a processor gets actives of another that
lives only when all its own copies were seen caught up, so that a newcomer is warm before it works; after the rebind
timeout it gets them all the same. The tasks that move are those with a copy there, as far as there are any; others are
warmed up there first. What moves goes in steps (`mooring.agent.planning.staged_moves`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from mooring.agent.planning.copies import (
    are_caught_up,
    cold_arrivals,
    cold_copies,
    tasks_of_standbys,
    transfer_allowance_ms,
    without_gone_copies,
)
from mooring.agent.planning.staged_moves import Stage, next_stage, with_stage_started
from mooring.agent.state.fleet import Fleet
from mooring.errors import InvalidGroupingError
from mooring.grouping import (
    DEFAULT_GROUPER,
    GrouperChoice,
    check_job_model,
    check_standbys,
    locations_of_copies,
    plan_job,
)
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel, named_place, natural_order
from mooring.standby import Standbys, assign_standbys

Queries = Mapping[str, frozenset[TaskModel]]
NO_ARRIVALS: Final[Mapping[str, str]] = MappingProxyType({})


def regrouped(fleet: Fleet, now_ms: int) -> tuple[Fleet, list[str]]:
    """Group all running queries anew over the processors there are; the second answer is what the user must hear.

    The version rises only when something changed. When the chosen grouper fails, or its plan breaks a promise, the last
    plan stays in force; where that is not possible, as some task has no place in it, the default grouper plans instead.
    InvalidGroupingError when the default grouper's plan breaks a promise.
    """
    if not fleet.processors:
        return without_regrouping(fleet), []
    queries = {query.label: query.tasks for query in fleet.queries.values() if query.task_count}
    if not queries:
        idle = [ContainerModel.of(id, [], LocationId(place)) for id, place in fleet.places.items()]
        return with_job_model(without_regrouping(fleet), idle), []
    try:
        return _planned(fleet, queries, fleet.grouping, now_ms)
    except InvalidGroupingError as refusal:
        if fleet.grouping.make is DEFAULT_GROUPER.make:
            raise
        refused = f"the plan of spark.mooring.grouper={fleet.grouping.name} was refused: {refusal}"
        if _has_a_place_for_all(fleet, queries):
            stays, told = _at_rest(fleet, queries)
            return stays, [f"{refused}; the last plan stays in force", *told]
        planned, told = _planned(fleet, queries, _default_grouper(fleet), now_ms)
        return planned, [f"{refused}; this plan is made by {DEFAULT_GROUPER.name}", *told]


def with_copies_renewed(fleet: Fleet) -> tuple[Fleet, list[str]]:
    """Assign the copies anew, as when some are not wanted any more: no active moves, and what is due later stays so.

    Also what the user must hear. InvalidGroupingError when the plan breaks a promise.
    """
    queries = {query.label: query.tasks for query in fleet.queries.values()}
    if fleet.replication_factor == 1 or not queries or not fleet.processors:
        return fleet, []
    after, told = _at_rest(fleet, queries, fleet.arrivals)
    return replace(after, regroup_at_ms=fleet.regroup_at_ms, even_out_by_ms=fleet.even_out_by_ms), told


def replanned_after_rebind(fleet: Fleet) -> tuple[Fleet, list[str]]:
    """The plan after a processor has gone to another executor: no task leaves its processor; copies are planned anew.

    Also what the user must hear. InvalidGroupingError when the plan breaks a promise.
    """
    if fleet.replication_factor > 1 and fleet.queries:
        return with_copies_renewed(fleet)
    queries = {query.label: query.tasks for query in fleet.queries.values()}
    return with_job_model(fleet, list(_resting(fleet, queries).containers.values())), []


def without_regrouping(fleet: Fleet) -> Fleet:
    """With no regrouping pending, and no task awaited anywhere."""
    return replace(fleet, regroup_at_ms=None, even_out_by_ms=None, arrivals={})


def _planned(fleet: Fleet, queries: Queries, choice: GrouperChoice, now_ms: int) -> tuple[Fleet, list[str]]:
    """The next stage towards the evened plan in force; the resting plan, while that has to wait."""
    resting = _resting(fleet, queries)
    kept = _with_standbys(fleet, resting, choice)
    if fleet.replication_factor > 1 and fleet.is_incomplete:
        return _standing(fleet, queries, kept, choice)
    wishes = fleet.task_locality if fleet.replication_factor == 1 else _wishes(fleet, kept.model)
    target = _with_idle(fleet, _grouped(fleet, queries, fleet.open_places, wishes, choice))
    stage = next_stage(fleet, resting, target)
    arrivals = _arrivals(fleet, stage.model)
    by_ms = fleet.even_out_by_ms
    if by_ms is None:
        by_ms = _warm_by_ms(fleet, arrivals, kept.model, stage, now_ms)
    if by_ms > now_ms and _must_wait(replace(fleet, arrivals=arrivals), kept.model, stage):
        after, told = _standing(fleet, queries, kept, choice, arrivals)
        return replace(after, even_out_by_ms=by_ms), told
    after, told = _standing(fleet, queries, _with_standbys(fleet, stage.model, choice), choice)
    after = with_stage_started(after, stage, now_ms)
    if stage.is_last:
        return after, told
    after, more = _planned(after, queries, choice, now_ms)  # which has to wait, and warms up what comes next
    return after, [*told, *more]


def _arrivals(fleet: Fleet, planned: JobModel) -> dict[str, str]:
    """The tasks that have state and run on a processor other than the planned one, which is on another location."""
    before, bound, partition_of = fleet.processor_of_task(), fleet.executor_of, fleet.partition_of_task()
    return {
        name: id
        for id, container in planned.containers.items()
        for name in container.actives
        if name in partition_of
        and fleet.queries[partition_of[name][0]].can_be_copied
        and id in bound
        and before.get(name, id) in bound
        and fleet.places[before.get(name, id)] != fleet.places[id]
    }


def _at_rest(fleet: Fleet, queries: Queries, arrivals: Mapping[str, str] = NO_ARRIVALS) -> tuple[Fleet, list[str]]:
    """Every active stays; copies are assigned anew."""
    if fleet.replication_factor == 1:
        return without_regrouping(fleet), []
    choice = _default_grouper(fleet)
    return _standing(fleet, queries, _with_standbys(fleet, _resting(fleet, queries), choice), choice, arrivals)


def _grouped(
    fleet: Fleet, queries: Queries, places: Mapping[str, str], wishes: Mapping[str, str], choice: GrouperChoice
) -> JobModel:
    """The actives of these queries on these processors, checked."""
    weights = _weights(fleet, choice)
    planned = plan_job(queries, places, wishes, fleet.model, weights, choice.make)
    grouper = choice.make(None, None)
    seen = wishes if grouper.moves_fewest else None
    check_job_model(planned, queries, places, seen, fleet.model, weights, grouper.most_processors)
    if choice.is_users:
        again = plan_job(queries, places, wishes, planned, weights, choice.make)
        if again.containers != planned.containers:
            raise InvalidGroupingError(
                "asked again, it answered otherwise (the promise: grouping its own output changes nothing)"
            )
    return planned


def _resting(fleet: Fleet, queries: Queries) -> JobModel:
    """Each task where it is; those that have no place, on the processors that have an executor, by the default grouper.

    Which grouper was chosen does not matter for long: an evened plan follows.
    """
    places = fleet.places
    here = {task: id for task, id in fleet.processor_of_task().items() if id in places}
    tasks_on: dict[str, list[TaskModel]] = {id: [] for id in places}
    homeless: dict[str, frozenset[TaskModel]] = {}
    for label, tasks in queries.items():
        for task in tasks:
            if task.task_name in here:
                tasks_on[here[task.task_name]].append(task)
        homeless[label] = frozenset(task for task in tasks if task.task_name not in here)
    homeless = {label: tasks for label, tasks in homeless.items() if tasks}
    if homeless:
        open_places = fleet.open_places
        able = {id: place for id, place in open_places.items() if id in fleet.executor_of} or open_places
        wishes = {**fleet.task_locality, **locations_of_copies(fleet.task_locality, places, fleet.model)}
        for id, container in _grouped(fleet, homeless, able, wishes, _default_grouper(fleet)).containers.items():
            tasks_on[id] += container.tasks.values()
    return JobModel.of(
        [ContainerModel.of(id, tasks, named_place(places[id])) for id, tasks in tasks_on.items()], fleet.model.version
    )


def _with_idle(fleet: Fleet, model: JobModel) -> JobModel:
    """With the processors that were not to get any actives."""
    idle = [
        ContainerModel.of(id, [], named_place(place))
        for id, place in fleet.places.items()
        if id not in model.containers
    ]
    return replace(model, containers=JobModel.of([*model.containers.values(), *idle]).containers)


def _wishes(fleet: Fleet, model: JobModel) -> dict[str, str]:
    """Where tasks ran last; for those whose processor is gone, or has many, where a copy is."""
    query_of = {name: query for name, (query, _) in fleet.partition_of_task().items()}
    sizes = Counter(
        (id, query_of.get(name)) for id, container in model.containers.items() for name in container.actives
    )
    owner = {name: id for id, container in model.containers.items() for name in container.actives}
    takers: dict[str, str] = {}
    for id in sorted(fleet.open_places.keys() & model.containers.keys(), key=natural_order):
        for task in model.containers[id].tasks.values():
            name = task.standby_of
            if name is not None and sizes[id, query_of.get(name)] < sizes[owner[name], query_of.get(name)] - 1:
                takers.setdefault(name, id)
    copies = locations_of_copies(fleet.task_locality, fleet.undrained_places or fleet.places, fleet.model)
    wishes = {**fleet.task_locality, **copies}
    return {**wishes, **{name: fleet.processors[id].location for name, id in takers.items()}}


def _must_wait(fleet: Fleet, resting: JobModel, stage: Stage) -> bool:
    """Whether the stage before is not over, a task is not warm where it goes, or the copies there are not caught up.

    `arrivals` of the fleet are those of the stage.
    """
    if stage.receivers and fleet.settled_by_ms is not None:
        return True
    return bool(cold_arrivals(fleet)) or not are_caught_up(fleet, resting, _receivers(fleet, stage))


def _receivers(fleet: Fleet, stage: Stage) -> set[str]:
    """The processors that get a task which another one has."""
    before = fleet.processor_of_task()
    return {
        id
        for id, container in stage.model.containers.items()
        if any(before.get(name, id) != id and before[name] in fleet.processors for name in container.tasks)
    }


def _warm_by_ms(fleet: Fleet, arrivals: Mapping[str, str], resting: JobModel, stage: Stage, now_ms: int) -> int:
    """Until when the stage may wait: the rebind timeout, and the time that the state which it waits for may take."""
    if not fleet.timing.rebind_timeout_ms:
        return now_ms
    bound, awaited = fleet.executor_of, replace(fleet, arrivals=arrivals)
    tasks = [(name, bound.get(arrivals[name])) for name in cold_arrivals(awaited)]
    copies = cold_copies(fleet, resting, _receivers(fleet, stage))
    return now_ms + fleet.timing.rebind_timeout_ms + transfer_allowance_ms(fleet, [*tasks, *copies])


def _with_standbys(fleet: Fleet, model: JobModel, choice: GrouperChoice) -> Standbys:
    if fleet.replication_factor == 1:
        return Standbys(model)
    return assign_standbys(
        model,
        fleet.replication_factor,
        fleet.model,
        _zones(fleet),
        _weights(fleet, choice),
        fleet.may_hold_copies,
        fleet.stopped_standbys,
        _pinned(fleet, model),
    )


def _pinned(fleet: Fleet, model: JobModel) -> dict[str, dict[int, str]]:
    """Active task's name to replica to the location where an operator wants it."""
    wanted: dict[str, dict[int, str]] = {}
    for standby, name, replica in tasks_of_standbys(fleet, model, fleet.pinned_standbys):
        wanted.setdefault(name, {})[replica] = fleet.pinned_standbys[standby]
    return wanted


def _standing(
    fleet: Fleet,
    queries: Queries,
    planned: Standbys,
    choice: GrouperChoice,
    arrivals: Mapping[str, str] = NO_ARRIVALS,
) -> tuple[Fleet, list[str]]:
    """The plan in force, after a look at its standbys, with what could not be placed; and what to say of that.

    `arrivals` are what is to be warmed up for the plan after it.
    """
    if fleet.replication_factor == 1:
        stands = with_job_model(without_regrouping(fleet), list(planned.model.containers.values()))
        return without_gone_copies(replace(stands, arrivals=arrivals)), []
    tasks = [task for tasks in queries.values() for task in tasks]
    model, factor = planned.model, fleet.replication_factor
    _check_each_is_active_once(model, tasks)
    weights, bound = _weights(fleet, choice), fleet.may_hold_copies
    stopped, pinned = fleet.stopped_standbys, _pinned(fleet, model)
    check_standbys(model, tasks, _zones(fleet), factor, weights, bound, stopped, pinned)
    told = []
    if planned.unplaced and not fleet.unplaced:
        first = planned.unplaced[0]
        count = len(planned.unplaced)
        told.append(f"{count} standbys have no place, as that of {first.task_name}: {first.reason}")
    if planned.sharing_zone and not fleet.sharing_zone:
        count = len(planned.sharing_zone)
        told.append(
            f"{count} standbys are in one zone with another copy, as that of {planned.sharing_zone[0].task_name}"
        )
    known = {(copy.task_name, copy.replica) for copy in fleet.unplaced}
    failed = sum((copy.task_name, copy.replica) not in known for copy in planned.unplaced)
    counts = replace(fleet.standby_counts, failed_allocations=fleet.standby_counts.failed_allocations + failed)
    after = replace(
        with_job_model(without_regrouping(fleet), list(model.containers.values())),
        unplaced=planned.unplaced,
        sharing_zone=planned.sharing_zone,
        standby_counts=counts,
        arrivals=arrivals,
    )
    return without_gone_copies(after), told


def _check_each_is_active_once(model: JobModel, tasks: Collection[TaskModel]) -> None:
    """For resting plans, which need not be even; evened ones were seen by `check_job_model` as well."""
    times = Counter(task for container in model.containers.values() for task in container.actives.values())
    times.subtract(tasks)
    wrong = min((task.task_name for task, count in times.items() if count), key=natural_order, default=None)
    if wrong is not None:
        raise InvalidGroupingError(f'task "{wrong}" is not active exactly once (the promise: each task exactly once)')


def _weights(fleet: Fleet, choice: GrouperChoice) -> dict[str, int] | None:
    return fleet.state_bytes() or None if choice.by_bytes else None


def _zones(fleet: Fleet) -> dict[str, str] | None:
    """Location to zone; None where no zone is known."""
    return {executor.location: executor.zone for executor in fleet.executors.values() if executor.zone} or None


def _default_grouper(fleet: Fleet) -> GrouperChoice:
    return replace(DEFAULT_GROUPER, by_bytes=fleet.grouping.by_bytes)


def _has_a_place_for_all(fleet: Fleet, queries: Queries) -> bool:
    """Whether the job model in force has every task of every query on a processor that is there."""
    placed = {name for name, processor in fleet.processor_of_task().items() if processor in fleet.processors}
    return all(task.task_name in placed for tasks in queries.values() for task in tasks)


def without_ended_queries(fleet: Fleet) -> Fleet:
    """Take the tasks of ended queries out of the job model; nothing moves, and their places stay remembered."""
    running = {task.task_name for query in fleet.queries.values() for task in query.tasks}
    left = [
        ContainerModel.of(
            container.processor_id,
            (task for name, task in container.tasks.items() if (task.standby_of or name) in running),
            container.location_id,
        )
        for container in fleet.model.containers.values()
    ]
    return with_job_model(fleet, left) if left else fleet


def with_job_model(fleet: Fleet, containers: list[ContainerModel]) -> Fleet:
    """With these containers in the job model, of the next version if they say anything new."""
    now = JobModel.of(containers, fleet.model.version, fleet.grouping.config)
    if dict(now.containers) == dict(fleet.model.containers):
        return fleet
    before, planned = fleet.processor_of_task(), replace(fleet, model=replace(now, version=now.version + 1))
    changed = frozenset(task for task, owner in planned.processor_of_task().items() if before.get(task) != owner)
    return replace(planned, changed_tasks=changed)
