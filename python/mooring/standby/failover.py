"""Failover: which processors run the tasks of lost processors.

A task with a living copy starts at one of its copies. A task without a living copy gets no new owner here. The load of
a survivor is the number of its own actives and of the tasks that it gains. The loads are as even as the copies allow:
the highest load is as low as possible. Tasks are counted, not weighed.

Example: processor 0 is lost with tasks a and b. Copies of a are on 1 and 2, a copy of b is on 1. Then 1 gets b and 2
gets a.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from mooring.model import JobModel, LocationId, TaskMode, TaskName, named_location, natural_order
from mooring.standby.chain import shortest_chain


def choose_new_owners(model: JobModel, lost: Collection[str]) -> dict[TaskName, str]:
    """Maps each task of the lost processors that has a living copy to the processor that gets the task.

    `model` is the newest job model, with its standbys. Ids of processors that it does not have are ignored.
    """
    return _Index(model).new_owners(model.containers.keys() & lost)


def failover_order(model: JobModel) -> dict[TaskName, tuple[str, ...]]:
    """Maps each active task to the processors with a copy of it, in the order in which they get the task.

    The first processor gets the task when the location of the task is lost, so the tasks of a lost location spread
    evenly. The other processors are for the case that the first is lost as well. They are ordered by their load after
    that failover.
    """
    index = _Index(model)
    order: dict[TaskName, tuple[str, ...]] = {}
    for lost in _processors_by_location(model):
        new_owner = index.new_owners(lost)
        load = index.load + Counter(new_owner.values())
        for task, first in new_owner.items():
            others = [p for p in index.holders[task] if p != first and p not in lost]
            order[task] = (first, *sorted(others, key=lambda p: (load[p], natural_order(p))))
    return {
        name: order.get(name, ())
        for name in sorted((name for tasks in index.tasks.values() for name in tasks), key=natural_order)
    }


def _processors_by_location(model: JobModel) -> list[set[str]]:
    """The processors of each location. A processor without a location is a set of its own."""
    groups: dict[LocationId | None, list[str]] = {}
    for id in sorted(model.containers, key=natural_order):
        groups.setdefault(named_location(model.containers[id].location_id), []).append(id)
    alone = groups.pop(None, [])
    return [set(ids) for ids in groups.values()] + [{id} for id in alone]


class _Index:
    """The job model, indexed.

    `tasks` maps processor to its active tasks, `load` processor to their number, and `holders` active task to the
    processors with a copy of it.
    """

    def __init__(self, model: JobModel) -> None:
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

    def new_owners(self, lost: Collection[str]) -> dict[TaskName, str]:
        """Maps each task of the lost processors that has a living copy to the processor that gets it."""
        choices = {
            task: living
            for task in sorted((task for id in lost for task in self.tasks[id]), key=natural_order)
            if (living := [p for p in self.holders[task] if p not in lost])
        }
        return _spread(choices, self.load)


def _spread(choices: Mapping[TaskName, Sequence[str]], load: Mapping[str, int]) -> dict[TaskName, str]:
    """Maps each task to one of its choices, as evenly as the choices allow.

    Each task first goes to the lightest of its choices. Then chains of transfers even the load out
    (`mooring.standby.chain`).

    `load` is what each processor carries already.
    """
    processors = sorted({p for found in choices.values() for p in found}, key=natural_order)
    number = {p: n for n, p in enumerate(processors)}
    carried = [load[p] for p in processors]
    names = list(choices)
    given: list[dict[int, None]] = [{} for _ in processors]
    for t, name in enumerate(names):
        p = min((number[p] for p in choices[name]), key=lambda p: (carried[p], p))
        given[p][t] = None
        carried[p] += 1

    def possible_transfers(p: int) -> Iterator[tuple[int, int]]:
        return ((t, number[q]) for t in given[p] for q in choices[names[t]])

    while any([_give_one_away(giver, possible_transfers, given, carried) for giver in range(len(processors))]):
        pass
    return {names[t]: processors[p] for p, tasks in enumerate(given) for t in tasks}


def _give_one_away(
    giver: int,
    possible_transfers: Callable[[int], Iterator[tuple[int, int]]],
    given: list[dict[int, None]],
    carried: list[int],
) -> bool:
    """Carry out a chain of transfers from the giver to a processor with at least two tasks fewer, if there is one."""
    chain = shortest_chain([giver], possible_transfers, lambda q: carried[q] <= carried[giver] - 2)
    for t, p, q in chain:
        del given[p][t]
        given[q][t] = None
        carried[p] -= 1
        carried[q] += 1
    return bool(chain)
