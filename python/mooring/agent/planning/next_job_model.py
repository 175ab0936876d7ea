"""The next job model of the fleet: which processor runs which task, and which processors hold copies.

The functions are pure. The code that checks a job model shares nothing with the code that makes it.

There are two kinds of job model. An *in-place* job model moves no active task: it only gives a processor to tasks that
have none. A *balanced* job model lets the grouper distribute all active tasks evenly. In both, copies are assigned
anew. With standbys, every job model is in-place while a processor waits for an executor; otherwise the balanced one is
the target.

A task moves to another processor only when its state is warm there, or when a limited time is over: the rebind timeout
and twice the time that the copy of the missing bytes takes. Example: processor 0 runs tasks a, b, c and d, and
processor 1 joins. The balanced job model gives c and d to processor 1. First comes the in-place one, with which
processor 1 makes copies of c and d. When these are warm, the balanced one follows. Large moves go in steps, a few
processors at a time (`mooring.agent.planning.moves_in_steps`).

A *promise* is a rule that each job model must keep. `mooring.grouping.check` and `mooring.grouping.check_standbys` have
all promises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from mooring.agent.planning.accepted_job_model import (
    NOTHING_TO_WARM_UP,
    Queries,
    job_model_with_standbys,
    weights_of,
    with_accepted,
    with_job_model,
    without_regrouping,
)
from mooring.agent.planning.copies import are_caught_up, cold_copies, tasks_still_cold, transfer_allowance_ms
from mooring.agent.planning.moves_in_steps import Step, next_step, with_step_started
from mooring.agent.state.fleet import Fleet
from mooring.errors import InvalidGroupingError
from mooring.grouping import DEFAULT_GROUPER, GrouperChoice, check_job_model, locations_of_copies, plan_job
from mooring.model import ContainerModel, JobModel, LocationId, TaskModel, named_location, natural_order


def regrouped(fleet: Fleet, now_ms: int) -> tuple[Fleet, list[str]]:
    """The fleet with its next job model, and warnings for the user.

    All running queries are grouped over all processors. The version rises only when the job model has changed.

    When the chosen grouper fails, or its job model breaks a promise, the last job model stays. When the last one lacks
    a task, the default grouper plans instead. Raises InvalidGroupingError when the default grouper's job model breaks a
    promise.
    """
    if not fleet.processors:
        return without_regrouping(fleet), []
    queries = {query.label: query.tasks for query in fleet.queries.values() if query.task_count}
    if not queries:
        idle = [ContainerModel.of(id, [], LocationId(location)) for id, location in fleet.locations.items()]
        return with_job_model(without_regrouping(fleet), idle), []
    try:
        return _planned(fleet, queries, fleet.settings.grouping, now_ms)
    except InvalidGroupingError as refusal:
        if fleet.settings.grouping.make is DEFAULT_GROUPER.make:
            raise
        refused = f"the plan of spark.mooring.grouper={fleet.settings.grouping.name} was refused: {refusal}"
        if _has_a_place_for_all(fleet, queries):
            unmoved, warnings = _with_actives_in_place(fleet, queries)
            return unmoved, [f"{refused}; the last plan stays in force", *warnings]
        planned, warnings = _planned(fleet, queries, _default_grouper(fleet), now_ms)
        return planned, [f"{refused}; this plan is made by {DEFAULT_GROUPER.name}", *warnings]


def with_copies_renewed(fleet: Fleet) -> tuple[Fleet, list[str]]:
    """The fleet with its copies assigned anew, and warnings for the user.

    No active task moves. A regrouping that is due stays due. Raises InvalidGroupingError when the job model breaks a
    promise.
    """
    queries = {query.label: query.tasks for query in fleet.queries.values()}
    if fleet.settings.replication_factor == 1 or not queries or not fleet.processors:
        return fleet, []
    after, warnings = _with_actives_in_place(fleet, queries, fleet.tasks_to_warm_up)
    timers = replace(after.timers, regroup_at_ms=fleet.timers.regroup_at_ms, even_out_by_ms=fleet.timers.even_out_by_ms)
    return replace(after, timers=timers), warnings


def replanned_in_place(fleet: Fleet) -> tuple[Fleet, list[str]]:
    """The fleet with a job model for processors that now have another executor, and warnings for the user.

    No task leaves its processor; copies are assigned anew. Raises InvalidGroupingError when the job model breaks a
    promise.
    """
    if fleet.settings.replication_factor > 1 and fleet.queries:
        return with_copies_renewed(fleet)
    queries = {query.label: query.tasks for query in fleet.queries.values()}
    return with_job_model(fleet, list(_in_place_job_model(fleet, queries).containers.values())), []


def _planned(fleet: Fleet, queries: Queries, choice: GrouperChoice, now_ms: int) -> tuple[Fleet, list[str]]:
    """The fleet with the next step of the balanced job model; with the in-place one while that step must wait.

    Also warnings for the user.
    """
    in_place = _in_place_job_model(fleet, queries)
    unmoved = job_model_with_standbys(fleet, in_place, choice)
    if fleet.settings.replication_factor > 1 and fleet.is_incomplete:
        return with_accepted(fleet, queries, unmoved, choice)
    preferred = (
        fleet.task_locality if fleet.settings.replication_factor == 1 else _preferred_locations(fleet, unmoved.model)
    )
    balanced = _with_idle_processors(fleet, _grouped(fleet, queries, fleet.open_locations, preferred, choice))
    step = next_step(fleet, in_place, balanced)
    tasks_to_warm_up = _tasks_to_warm_up(fleet, step.model)
    wait_until_ms = fleet.timers.even_out_by_ms
    if wait_until_ms is None:
        wait_until_ms = _wait_until_ms(fleet, tasks_to_warm_up, unmoved.model, step, now_ms)
    if wait_until_ms > now_ms and _must_wait(replace(fleet, tasks_to_warm_up=tasks_to_warm_up), unmoved.model, step):
        after, warnings = with_accepted(fleet, queries, unmoved, choice, tasks_to_warm_up)
        return replace(after, timers=replace(after.timers, even_out_by_ms=wait_until_ms)), warnings
    after, warnings = with_accepted(fleet, queries, job_model_with_standbys(fleet, step.model, choice), choice)
    after = with_step_started(after, step, now_ms)
    if step.is_last:
        return after, warnings
    # The step after this one has to wait, so this call only starts to warm up the tasks of that step.
    after, more_warnings = _planned(after, queries, choice, now_ms)
    return after, [*warnings, *more_warnings]


def _tasks_to_warm_up(fleet: Fleet, planned: JobModel) -> dict[str, str]:
    """Task to the processor that the job model moves it to, for tasks whose state must be warmed up at that processor.

    These are tasks with state that now run at another location.
    """
    before, executor_of, partition_of = fleet.processor_of_task(), fleet.executor_of, fleet.partition_of_task()
    return {
        name: id
        for id, container in planned.containers.items()
        for name in container.actives
        if name in partition_of
        and fleet.queries[partition_of[name][0]].can_be_copied
        and id in executor_of
        and before.get(name, id) in executor_of
        and fleet.locations[before.get(name, id)] != fleet.locations[id]
    }


def _with_actives_in_place(
    fleet: Fleet, queries: Queries, tasks_to_warm_up: Mapping[str, str] = NOTHING_TO_WARM_UP
) -> tuple[Fleet, list[str]]:
    """The fleet with the in-place job model and copies assigned anew, and warnings for the user.

    With a replication factor of 1 nothing is assigned: the last job model stays.
    """
    if fleet.settings.replication_factor == 1:
        return without_regrouping(fleet), []
    choice = _default_grouper(fleet)
    planned = job_model_with_standbys(fleet, _in_place_job_model(fleet, queries), choice)
    return with_accepted(fleet, queries, planned, choice, tasks_to_warm_up)


def _grouped(
    fleet: Fleet,
    queries: Queries,
    processor_locality: Mapping[str, str],
    preferred: Mapping[str, str],
    choice: GrouperChoice,
) -> JobModel:
    """The active tasks of these queries grouped on these processors. The result is checked.

    `preferred` maps tasks to the locations where they should run. A grouper of the user must also keep its own job
    model when it is called again with that job model. Raises InvalidGroupingError when the job model breaks a promise.
    """
    weights = weights_of(fleet, choice)
    planned = plan_job(queries, processor_locality, preferred, fleet.model, weights, choice.make)
    grouper = choice.make(None, None)
    locality_to_check = preferred if grouper.moves_fewest else None
    check_job_model(
        planned, queries, processor_locality, locality_to_check, fleet.model, weights, grouper.most_processors
    )
    if choice.is_users:
        again = plan_job(queries, processor_locality, preferred, planned, weights, choice.make)
        if again.containers != planned.containers:
            raise InvalidGroupingError(
                "grouping its own output gave another plan (the promise: grouping its own output changes nothing)"
            )
    return planned


def _in_place_job_model(fleet: Fleet, queries: Queries) -> JobModel:
    """A job model in which every task stays on its processor. It has no standbys.

    The default grouper gives the tasks without a processor to processors that have an executor. The chosen grouper is
    not needed here, because a balanced job model follows.
    """
    locations = fleet.locations
    current = {task: id for task, id in fleet.processor_of_task().items() if id in locations}
    tasks_on: dict[str, list[TaskModel]] = {id: [] for id in locations}
    unassigned: dict[str, frozenset[TaskModel]] = {}
    for label, tasks in queries.items():
        for task in tasks:
            if task.task_name in current:
                tasks_on[current[task.task_name]].append(task)
        unassigned[label] = frozenset(task for task in tasks if task.task_name not in current)
    unassigned = {label: tasks for label, tasks in unassigned.items() if tasks}
    if unassigned:
        open_locations = fleet.open_locations
        usable = {id: location for id, location in open_locations.items() if id in fleet.executor_of} or open_locations
        preferred = {**fleet.task_locality, **locations_of_copies(fleet.task_locality, locations, fleet.model)}
        for id, container in _grouped(fleet, unassigned, usable, preferred, _default_grouper(fleet)).containers.items():
            tasks_on[id] += container.tasks.values()
    return JobModel.of(
        [ContainerModel.of(id, tasks, named_location(locations[id])) for id, tasks in tasks_on.items()],
        fleet.model.version,
    )


def _with_idle_processors(fleet: Fleet, model: JobModel) -> JobModel:
    """The job model with an empty container for each processor that the grouper did not use."""
    idle = [
        ContainerModel.of(id, [], named_location(location))
        for id, location in fleet.locations.items()
        if id not in model.containers
    ]
    return replace(model, containers=JobModel.of([*model.containers.values(), *idle]).containers)


def _preferred_locations(fleet: Fleet, model: JobModel) -> dict[str, str]:
    """Task to the location where the grouper should put it: where it ran last, or where a copy of it is.

    The location of a copy is preferred for two kinds of tasks: those whose processor is gone, and those whose processor
    has at least two tasks of the query more than the processor with the copy.
    """
    query_of = {name: query for name, (query, _) in fleet.partition_of_task().items()}
    sizes = Counter(
        (id, query_of.get(name)) for id, container in model.containers.items() for name in container.actives
    )
    owner = {name: id for id, container in model.containers.items() for name in container.actives}
    smaller_holders: dict[str, str] = {}
    for id in sorted(fleet.open_locations.keys() & model.containers.keys(), key=natural_order):
        for task in model.containers[id].tasks.values():
            name = task.standby_of
            if name is not None and sizes[id, query_of.get(name)] < sizes[owner[name], query_of.get(name)] - 1:
                smaller_holders.setdefault(name, id)
    copies = locations_of_copies(fleet.task_locality, fleet.undrained_locations or fleet.locations, fleet.model)
    preferred = {**fleet.task_locality, **copies}
    return {**preferred, **{name: fleet.processors[id].location for name, id in smaller_holders.items()}}


def _must_wait(fleet: Fleet, in_place: JobModel, step: Step) -> bool:
    """Whether the step must wait. `fleet.tasks_to_warm_up` are those of this step.

    It waits for three things: the step before it has settled, each of these tasks is warm at its destination, and all
    copies that the receivers have in the in-place job model are caught up.
    """
    if step.receivers and fleet.timers.new_batches_ignored_after_ms is not None:
        return True
    return bool(tasks_still_cold(fleet)) or not are_caught_up(fleet, in_place, _receivers(fleet, step))


def _receivers(fleet: Fleet, step: Step) -> set[str]:
    """The processors that get at least one task from another processor in this step."""
    before = fleet.processor_of_task()
    return {
        id
        for id, container in step.model.containers.items()
        if any(before.get(name, id) != id and before[name] in fleet.processors for name in container.tasks)
    }


def _wait_until_ms(
    fleet: Fleet, tasks_to_warm_up: Mapping[str, str], in_place: JobModel, step: Step, now_ms: int
) -> int:
    """The time when the step starts even if its tasks are not warm, in milliseconds since the epoch.

    It is the rebind timeout from now, and the time that the transfer of the missing state may take. Without a rebind
    timeout nothing waits.
    """
    if not fleet.timing.rebind_timeout_ms:
        return now_ms
    executor_of, warming = fleet.executor_of, replace(fleet, tasks_to_warm_up=tasks_to_warm_up)
    tasks = [(name, executor_of.get(tasks_to_warm_up[name])) for name in tasks_still_cold(warming)]
    copies = cold_copies(fleet, in_place, _receivers(fleet, step))
    return now_ms + fleet.timing.rebind_timeout_ms + transfer_allowance_ms(fleet, [*tasks, *copies])


def _default_grouper(fleet: Fleet) -> GrouperChoice:
    """The default grouper, which counts bytes where the chosen grouper does."""
    return replace(DEFAULT_GROUPER, by_bytes=fleet.settings.grouping.by_bytes)


def _has_a_place_for_all(fleet: Fleet, queries: Queries) -> bool:
    """Whether the newest job model has every task of every query on a processor that still exists."""
    placed = {name for name, processor in fleet.processor_of_task().items() if processor in fleet.processors}
    return all(task.task_name in placed for tasks in queries.values() for task in tasks)
