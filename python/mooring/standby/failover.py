"""Who takes over when processors are lost.

Guaranteed: a task with a living copy starts where one is, so those that start without a copy are only those that have
none. The load of the survivors, their own actives and what they take over, is as even as the copies allow: the heaviest
is as light as can be. Tasks are counted, not weighed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mooring.model import JobModel, LocationId, TaskMode, TaskName, named_place, natural_order
from mooring.standby.chain import shortest_chain
from mooring.standby.queue import Queue


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """What happens to the tasks of lost processors.

    `with_copy` maps task to the processor that has a living copy and takes it; `without_copy` maps the tasks that have
    none to a survivor: at the location where it ran if there is one, else the one with the least tasks. It is None when
    nobody survives.
    """

    with_copy: Mapping[TaskName, str]
    without_copy: Mapping[TaskName, str | None]


def plan_failover(model: JobModel, processors: Collection[str] = (), locations: Collection[str] = ()) -> FailoverPlan:
    """Who takes the tasks of these lost processors, and of all processors at these lost locations.

    The model is that in force, with its standbys. Ids and locations that it does not know are ignored.
    """
    state = _State(model)
    lost = {
        id
        for id, container in model.containers.items()
        if id in processors or (named_place(container.location_id) or "") in locations
    }
    taker = state.takers(lost)
    return FailoverPlan(taker, state.cold_starts(lost, taker))


def failover_order(model: JobModel) -> dict[TaskName, tuple[str, ...]]:
    """For each active task the processors with a copy of it, in the order in which they are to take it.

    The first is the one that takes it when its location is lost, so the tasks of one lost location spread evenly. The
    others follow by how much they then have: the order for the case that the first is gone as well.
    """
    state = _State(model)
    order: dict[TaskName, tuple[str, ...]] = {}
    for lost in _by_location(model):
        taker = state.takers(lost)
        load = state.load + Counter(taker.values())
        for task, first in taker.items():
            others = [p for p in state.holders[task] if p != first and p not in lost]
            order[task] = (first, *sorted(others, key=lambda p: (load[p], natural_order(p))))
    return {
        name: order.get(name, ())
        for name in sorted((name for tasks in state.tasks.values() for name in tasks), key=natural_order)
    }


def _by_location(model: JobModel) -> list[set[str]]:
    """The processors of each location; one without a location is by itself."""
    groups: dict[LocationId | None, list[str]] = {}
    for id in sorted(model.containers, key=natural_order):
        groups.setdefault(named_place(model.containers[id].location_id), []).append(id)
    alone = groups.pop(None, [])
    return [set(ids) for ids in groups.values()] + [{id} for id in alone]


class _State:
    """The model, indexed: the active tasks and their number for each processor, and who has copies of each task."""

    def __init__(self, model: JobModel) -> None:
        self.places = {id: named_place(container.location_id) for id, container in model.containers.items()}
        self.tasks: dict[str, list[TaskName]] = {}
        self.holders: dict[TaskName, list[str]] = {}
        for id in sorted(model.containers, key=natural_order):
            container = model.containers[id]
            self.tasks[id] = sorted(container.actives, key=natural_order)
            for task in container.tasks.values():
                if task.standby_of is not None:
                    self.holders.setdefault(task.standby_of, []).append(id)
                elif task.task_mode is TaskMode.ACTIVE:
                    self.holders.setdefault(task.task_name, [])
        self.load = Counter({id: len(tasks) for id, tasks in self.tasks.items()})

    def takers(self, lost: Collection[str]) -> dict[TaskName, str]:
        """For each lost task that has a living copy the processor that takes it."""
        choices = {
            task: living
            for task in sorted((task for id in lost for task in self.tasks[id]), key=natural_order)
            if (living := [p for p in self.holders[task] if p not in lost])
        }
        return _spread(choices, self.load)

    def cold_starts(self, lost: Collection[str], taker: Mapping[TaskName, str]) -> dict[TaskName, str | None]:
        """Where the other lost tasks go."""
        survivors = sorted((id for id in self.places if id not in lost), key=natural_order)
        load = Counter(taker.values())
        load.update({id: self.load[id] for id in survivors})
        everywhere = Queue(range(len(survivors)), lambda n: (load[survivors[n]],))
        without: dict[TaskName, str | None] = {}
        for id in sorted(lost, key=natural_order):
            place = self.places[id]
            near = [p for p in survivors if place and self.places[p] == place]
            for task in self.tasks[id]:
                if task in taker:
                    continue
                first = survivors.index(min(near, key=load.__getitem__)) if near else everywhere.first()
                without[task] = None if first is None else survivors[first]
                if first is not None:
                    load[survivors[first]] += 1
                    everywhere.update(first)
        return without


def _spread(choices: Mapping[TaskName, Sequence[str]], load: Mapping[str, int]) -> dict[TaskName, str]:
    """One processor for each task, as evenly as the choices allow: greedy, then evened out by chains of changes."""
    able = sorted({p for found in choices.values() for p in found}, key=natural_order)
    number = {p: n for n, p in enumerate(able)}
    carried = [load[p] for p in able]
    names = list(choices)
    taken: list[dict[int, None]] = [{} for _ in able]
    for t, name in enumerate(names):
        p = min((number[p] for p in choices[name]), key=lambda p: (carried[p], p))
        taken[p][t] = None
        carried[p] += 1

    def gifts(p: int) -> Iterator[tuple[int, int]]:
        return ((t, number[q]) for t in taken[p] for q in choices[names[t]])

    while any([_relieved(giver, gifts, taken, carried) for giver in range(len(able))]):
        pass
    return {names[t]: able[p] for p, tasks in enumerate(taken) for t in tasks}


def _relieved(
    giver: int, gifts: Callable[[int], Iterator[tuple[int, int]]], taken: list[dict[int, None]], carried: list[int]
) -> bool:
    """Let the giver have one task less, and one that has at least two fewer one more; whether there is a way."""
    chain = shortest_chain([giver], gifts, lambda q: carried[q] <= carried[giver] - 2)
    for t, p, q in chain:
        del taken[p][t]
        taken[q][t] = None
        carried[p] -= 1
        carried[q] += 1
    return bool(chain)
