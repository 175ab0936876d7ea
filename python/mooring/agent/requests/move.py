"""Moving a processor to another executor.

Pure. A move reserves an executor, warms the processor's tasks up there while they run on at the source, switches at a
batch edge, and is done when a batch of each query has run there. Until then the source is the first refuge, and where
the move fails the processor is back there. An executor that is left without a processor gets a spare one: it may hold
copies, and actives only when somebody asks or nobody else can have them, so that a move is not undone by the next plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from mooring.agent.planning.binding import ask_for_regrouping, unused_id
from mooring.agent.planning.copies import MOST_LAG_VERSIONS, is_warm_at, transfer_allowance_ms, trouble_at
from mooring.agent.planning.next_job_model import replanned_after_rebind
from mooring.agent.planning.rows import loads_of
from mooring.agent.planning.staged_moves import IDLE_MS
from mooring.agent.requests.queue import Action, RequestQueue
from mooring.agent.requests.validation import places_of_copies, refusal
from mooring.agent.state.fleet import Executor, Fleet, Move, Processor
from mooring.model import natural_order
from mooring.placement import ANY_HOST, STANDBY
from mooring.placement.lifecycle import Happening, Phase

TROUBLE_MS: Final = 60_000
"""For how long a copy is tried to be made, every few seconds, where each time the executor says that it can not."""

CATCH_UP_MS: Final = 10_000
"""For how long all copies have to be seen caught up at once; then a version may be missing, which is fetched."""

Seen = tuple[Happening, str, str]
"""What has happened, in words, and the executor it is about."""


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """For how long what is waited for, in milliseconds; the larger copies are, the more time is added for them."""

    reserve_ms: int = 60_000
    warm_up_ms: int = 600_000
    switch_ms: int = 60_000
    restart_ms: int = 120_000


REQUEST_TIMEOUTS: Final = RequestTimeouts()


def reserved(
    fleet: Fleet, action: Action, timeouts: RequestTimeouts, now_ms: int, find: Callable[[], Executor | None]
) -> Seen | None:
    """What has come of looking for an executor, which `find` does."""
    refused = None if action.begun else refusal(fleet, action.request)
    if refused is not None:
        return Happening.NOT_POSSIBLE_ANY_MORE, refused, ""
    begun = fleet.executors.get(action.begun.executor) if action.begun else None  # it may be warm
    found = begun or find()
    if found is not None:
        return Happening.EXECUTOR_FOUND, f"executor {found.id} at {found.location} warms up", found.id
    wait = action.request.request_expiry_ms
    wait = timeouts.reserve_ms if wait is None else wait
    if now_ms >= action.since_ms + wait:
        where = action.request.destination_host
        what_helps = "have the cluster manager start one there, and ask again with a longer expiry: Mooring starts none"
        said = f"no executor was there for {where} within {wait} ms: nothing was changed; {what_helps}"
        for id in sorted(fleet.withheld.keys() & fleet.executors.keys(), key=natural_order):
            if fleet.executors[id].location == where:
                said = f"executor {id} on {where} gets no tasks: {fleet.withheld[id]}; nothing was changed"
        return Happening.EXPIRED, said, ""
    return None


def warmed_up(fleet: Fleet, action: Action, timeouts: RequestTimeouts, now_ms: int) -> Seen | None:
    """What has come of warming up at the destination."""
    id, destination = action.request.processor_id, fleet.executors.get(action.executor)
    if destination is None:
        return Happening.DESTINATION_LOST, f"executor {action.executor} was lost: the source was not touched", ""
    if destination.location in fleet.drained:
        what = f"host {destination.location} is drained meanwhile: the source was not touched"
        return Happening.NOT_POSSIBLE_ANY_MORE, what, ""
    if fleet.processors[id].executor is None:
        if fleet.replication_factor > 1 and next(tasks_of(fleet, id), None) is None:
            what = "the source was lost: its tasks run where their copies are"
            return Happening.NOT_POSSIBLE_ANY_MORE, what, ""
        return Happening.SOURCE_LOST, f"the source was lost: the tasks run on executor {destination.id} now", ""
    may_lag = now_ms >= action.since_ms + CATCH_UP_MS
    cold = cold_tasks(fleet, id, destination, MOST_LAG_VERSIONS if may_lag else 0)
    if not cold:
        return Happening.WARM, f"the tasks run on executor {destination.id} at {destination.location} now", ""
    outcome = never_warm(fleet, action, id, destination, cold, timeouts, now_ms)
    return outcome and (outcome[0], f"{outcome[1]}: the source was not touched", "")


def never_warm(
    fleet: Fleet,
    action: Action,
    id: str,
    destination: Executor,
    cold: list[str],
    timeouts: RequestTimeouts,
    now_ms: int,
) -> tuple[Happening, str] | None:
    """Why these copies of processor `id` are waited for no longer; None while they are."""
    here, waited_ms = _executors_at(fleet, destination), now_ms - action.since_ms
    for name, query, partition in tasks_of(fleet, id):
        trouble = trouble_at(fleet, query, partition, here, TROUBLE_MS) if name in cold else ""
        if trouble and waited_ms >= TROUBLE_MS:  # else it may be that of an earlier request
            return Happening.CAN_NOT_WARM_UP, f"no copy of {name} can be made at {destination.location} ({trouble})"
    if waited_ms >= timeouts.warm_up_ms:
        wait_ms = warming_up_ms(fleet, id, destination, timeouts)
        if waited_ms >= wait_ms:
            return Happening.EXPIRED, f"{len(cold)} copies were not there after {wait_ms} ms, as that of {cold[0]}"
    return None


def warming_up_ms(fleet: Fleet, id: str, destination: Executor, timeouts: RequestTimeouts) -> int:
    """For how long the state of the processor's tasks is waited for there: the more of it, the longer."""
    return timeouts.warm_up_ms + transfer_allowance_ms(
        fleet, [(name, destination.id) for name, *_ in tasks_of(fleet, id)]
    )


def progress(fleet: Fleet, action: Action) -> str:
    """How far an action is, in words."""
    destination = fleet.executors.get(action.executor)
    if action.phase is not Phase.WARMING_UP or destination is None:
        return action.phase.label
    id = fleet.base_of(action.request.processor_id)
    all_of_them = len(list(tasks_of(fleet, id)))
    cold = len(cold_tasks(fleet, id, destination))
    return f"{action.phase.label}: {all_of_them - cold} of {all_of_them} tasks' state is on executor {destination.id}"


def switched(
    fleet: Fleet, action: Action, timeouts: RequestTimeouts, version_in_force: int, now_ms: int
) -> Seen | None:
    """What has come of the switch."""
    id = action.request.processor_id
    processor = fleet.processors[id]
    if processor.executor != action.executor:
        has_left = f"processor {id} has left executor {action.executor}"
        is_lost = action.executor not in fleet.executors
        return Happening.DESTINATION_LOST, f"executor {action.executor} was lost" if is_lost else has_left, ""
    late = now_ms >= action.since_ms + timeouts.switch_ms
    if fleet.queries and version_in_force < action.version:
        return (Happening.EXPIRED, f"the plan was not in force after {timeouts.switch_ms} ms", "") if late else None
    waits = [query for query, there in _has_run_there(fleet, action, now_ms).items() if not there]
    if not waits:
        where = f"processor {id} is on executor {processor.executor} at {processor.location}"
        return Happening.RAN_THERE, f"{where}{_how_it_opened(fleet, action)}", ""
    disobeys = [query for query in waits if _began_under_the_plan(fleet, action, query)]
    if late and disobeys:
        label, after = fleet.queries[disobeys[0]].label, timeouts.switch_ms
        return Happening.EXPIRED, f"a batch of {label} ran elsewhere still, {after} ms after the switch", ""
    return None


def cold_tasks(fleet: Fleet, id: str, destination: Executor, most_lag: int = 0) -> list[str]:
    """The processor's tasks whose copy has not caught up there, in natural order; one host's executors share files."""
    if destination.location == fleet.processors[id].location:
        return []
    here = _executors_at(fleet, destination)
    cold = [
        name
        for name, query, partition in tasks_of(fleet, id)
        if fleet.queries[query].has_rocksdb and not is_warm_at(fleet, query, partition, here, most_lag)
    ]
    return sorted(cold, key=natural_order)


def _executors_at(fleet: Fleet, destination: Executor) -> list[str]:
    """All executors of its location, which share their files."""
    return [executor.id for executor in fleet.executors.values() if executor.location == destination.location]


def on_its_way(fleet: Fleet, action: Action, is_switched: bool = False) -> Fleet:
    """With the tasks warming up at the destination, or there already."""
    move = Move(action.source, action.executor, is_switched)
    return replace(fleet, moves={**fleet.moves, action.request.processor_id: move})


def arrived(fleet: Fleet, action: Action) -> Fleet:
    """With the processor not on its way any more, wherever it is."""
    id = action.request.processor_id
    left = {other: move for other, move in fleet.moves.items() if other != id}
    return replace(fleet, moves=left, openings=fleet.openings if left else {})


def switch(fleet: Fleet, action: Action) -> tuple[Fleet, list[str]]:
    """The processor on the executor of the destination, planned at once, and what the user must hear.

    InvalidGroupingError when that plan breaks a promise.
    """
    id = action.request.processor_id
    moves = {**fleet.moves, id: Move(action.source, action.executor, is_switched=True)}
    has_lent = fleet.replication_factor > 1 and fleet.processors[id].executor is None
    is_to_work = next(tasks_of(fleet, id), None) is None
    switched, told = _carried_by(replace(fleet, moves=moves), id, fleet.executors[action.executor])
    return (ask_for_regrouping(switched, action.since_ms) if has_lent or is_to_work else switched), told


def gone_back(fleet: Fleet, action: Action) -> tuple[Fleet, list[str], str]:
    """After a failed switch: the processor back at the source, if that lives, what the user must hear, and where it is.

    InvalidGroupingError when that plan breaks a promise.
    """
    id = action.request.processor_id
    here = arrived(fleet, action)
    if action.source not in fleet.executors:
        return here, [], "the source is lost as well: its tasks run on any host"
    back, told = _carried_by(here, id, fleet.executors[action.source])
    return back, told, f"it is back on executor {action.source}"


def _carried_by(fleet: Fleet, id: str, executor: Executor) -> tuple[Fleet, list[str]]:
    """With the processor on this executor; a spare one that was there goes where it was, and else one comes there."""
    before = fleet.processors[id]
    spares = [
        p for p in fleet.processors.values() if p.executor == executor.id and p.id != id and fleet.is_empty_spare(p.id)
    ]
    gone = {id, *(spare.id for spare in spares)}
    kept = {other: processor for other, processor in fleet.processors.items() if other not in gone}
    fleet = replace(fleet, processors={**kept, id: Processor(id, executor.location, executor.id)})
    left = fleet.executors.get(before.executor or "")
    if left is not None and left.id not in fleet.executor_of.values():
        spare = spares[0].id if spares else unused_id(fleet)
        fleet = fleet.with_processor(Processor(spare, left.location, left.id, is_spare=True))
    return replanned_after_rebind(fleet.without_wishes_of_the_gone())


def executor_for(queue: RequestQueue, fleet: Fleet, action: Action) -> Executor | None:
    """An executor at the destination, the one with the fewest tasks, now and with what is on its way there."""
    id, destination = action.request.processor_id, action.request.destination_host
    copies = places_of_copies(fleet, id)
    if destination == STANDBY:
        copies = {place: tasks for place, tasks in copies.items() if place not in fleet.drained}
        most = max((len(tasks) for tasks in copies.values()), default=0)
        open = {place for place, tasks in copies.items() if len(tasks) == most}
    elif destination == ANY_HOST:
        open = {executor.location for executor in fleet.executors.values()} - copies.keys()
    else:
        open = {destination}
    ending = {*queue.being_restarted, *fleet.restarts.values()}
    closed = ending | {fleet.processors[id].executor} | fleet.withheld.keys()
    open -= fleet.drained
    able = [e for e in fleet.executors.values() if e.location in open and e.id not in closed]
    loads = _loads(queue, fleet)
    here = fleet.processors[id].location
    return min(
        able,
        key=lambda executor: (executor.location == here, loads[executor.id], natural_order(executor.id)),
        default=None,
    )


def _loads(queue: RequestQueue, fleet: Fleet) -> dict[str, int]:
    """Executor to its tasks, and those that are on their way to it."""
    loads = loads_of(fleet)
    for action in queue.actions:
        if action.phase is Phase.WARMING_UP and action.executor in loads:
            container = fleet.model.containers.get(action.request.processor_id)
            loads[action.executor] += len(container.actives) if container else 0
    return loads


def tasks_of(fleet: Fleet, id: str) -> Iterator[tuple[str, str, int]]:
    """The processor's tasks of queries that run: name, query, partition."""
    by_label = {query.label: query for query in fleet.queries.values() if query.is_released}
    container = fleet.model.containers.get(id)
    for name, task in container.actives.items() if container else ():
        query, partition = by_label.get(name.rpartition("/")[0]), task.changelog_partition
        if query is not None and partition < query.task_count and query.task_name(partition) == name:
            yield name, query.id, partition


def _how_it_opened(fleet: Fleet, action: Action) -> str:
    """What was fetched for the processor's tasks when they were opened at the destination, as far as that is known."""
    places = [
        (fleet.queries[query].checkpoint.rstrip("/"), partition, action.executor)
        for _, query, partition in tasks_of(fleet, action.request.processor_id)
    ]
    fetched = [fleet.openings[place] for place in places if place in fleet.openings]
    if not fetched:
        return ""
    local = f"{fetched.count(0)} of {len(fetched)} tasks opened what was there"
    return f"; {local}, {sum(fetched)} bytes were fetched" if any(fetched) else f"; {local}"


def _has_run_there(fleet: Fleet, action: Action, now_ms: int) -> dict[str, bool]:
    """For each query with tasks of the processor: whether its last batch ran them all there, or none is under way."""
    there: dict[str, bool] = {}
    for _, id, partition in tasks_of(fleet, action.request.processor_id):
        query = fleet.queries[id]
        waited_ms = now_ms - max(action.since_ms, query.ran_at_ms)
        is_idle = waited_ms >= IDLE_MS + 2 * query.batch_ms and not _began_under_the_plan(fleet, action, id)
        is_idle = is_idle and not query.is_in_a_batch
        ran_there = query.ran_at_ms >= action.since_ms and not query.ran_elsewhere(partition, action.executor)
        there[id] = there.get(id, True) and (is_idle or ran_there)
    return there


def _began_under_the_plan(fleet: Fleet, action: Action, query: str) -> bool:
    """Whether the query's last batch began when the plan was in force for sure: one that ran across tells nothing."""
    last = fleet.queries[query]
    return last.ran_at_ms - last.batch_ms > action.since_ms + 2 * fleet.timing.barrier_timeout_ms
