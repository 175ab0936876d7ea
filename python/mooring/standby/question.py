"""Who may hold copies of what, in plain numbers, which is what the planner works on.

Tasks, processors, locations and zones are counted in natural order of their names, so the order in which the caller
listed them is forgotten here. Locations without a zone share one nameless zone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mooring.errors import InvalidGroupingError
from mooring.model import JobModel, LocationId, TaskModel, TaskName, named_place, natural_order, standby_name

NOWHERE: Final = -1
"""Stands for the location of a processor that has none."""


@dataclass(frozen=True, slots=True)
class Question:
    """The actives and the processors that may hold copies of them.

    Positions in `tasks`, `processors` and `places` are the numbers used for them. `place[p]` and `busy[p]` are the
    location and the number of actives of processor p; `zone[place]` is a location's zone, and `open_zones` are those
    with a processor that may hold copies, `open_places` the locations.

    For task t: `active_place[t]` is where it is active or NOWHERE, `is_alone[t]` whether nobody wants copies of it,
    `weight[t]` is at least 1. `homes[t]` are the processors that had a copy of it and are where they were; `warm[t]`
    are locations where its state was last, on other processors. `pinned[t]` maps the open locations where somebody
    wants a copy of it to the number of its replica; those of its homes are in `leaves[t]` whose replica is wanted
    elsewhere.
    """

    tasks: Sequence[TaskModel]
    processors: Sequence[str]
    places: Sequence[LocationId]
    place: Sequence[int]
    zone: Sequence[int]
    busy: Sequence[int]
    open_places: frozenset[int]
    open_zones: frozenset[int]
    active_place: Sequence[int]
    is_alone: Sequence[bool]
    weight: Sequence[int]
    homes: Sequence[Sequence[int]]
    warm: Sequence[Sequence[int]]
    pinned: Sequence[Mapping[int, int]]
    leaves: Sequence[Collection[int]]

    def locations_for(self, task: int) -> int:
        """How many locations may hold a copy of the task: all but that of its active, none when nobody wants one."""
        if self.is_alone[task]:
            return 0
        return len(self.open_places - {self.active_place[task]}) if self.active_place[task] != NOWHERE else 0

    def zones_for(self, task: int) -> int:
        """How many zones are there besides that of its active."""
        return len(self.open_zones - {self.active_zone(task)})

    def active_zone(self, task: int) -> int:
        """The zone of the task's active, NOWHERE when its location is not known."""
        place = self.active_place[task]
        return NOWHERE if place == NOWHERE else self.zone[place]


def pose(
    model: JobModel,
    zones: Mapping[str, str],
    weights: Mapping[str, int],
    previous: JobModel | None,
    bound: Collection[str] | None,
    stopped: Collection[str],
    pinned: Mapping[str, Mapping[int, str]],
) -> Question:
    """Translate names into numbers; the actives of `stopped` processors get no copies.

    A task without a weight weighs as the mean of the others. `pinned` maps task name to replica to location.
    """
    owner = _owner_of_each_active(model)
    location = {id: named_place(container.location_id) for id, container in model.containers.items()}
    places = sorted({place for place in location.values() if place}, key=natural_order)
    number = {place: n for n, place in enumerate(places)}
    zone_names = sorted({zones.get(place, "") for place in places}, key=natural_order)
    zone_of = [zone_names.index(zones.get(place, "")) for place in places]
    tasks = sorted((task for task, _ in owner.values()), key=lambda task: natural_order(task.task_name))
    processors = sorted(
        (id for id, place in location.items() if place and (bound is None or id in bound)), key=natural_order
    )
    place_of = [number[located] for located in map(location.__getitem__, processors) if located]
    open_places = frozenset(place_of)
    wanted = [_pinned(pinned.get(task.task_name, {}), number, open_places) for task in tasks]
    homes, warm, leaves = _where_state_is(tasks, processors, place_of, number, wanted, previous)
    return Question(
        tasks=tasks,
        processors=processors,
        places=places,
        place=place_of,
        zone=zone_of,
        busy=[len(model.containers[id].actives) for id in processors],
        open_places=open_places,
        open_zones=frozenset(zone_of[place] for place in open_places),
        active_place=[number[place] if (place := location[owner[task.task_name][1]]) else NOWHERE for task in tasks],
        is_alone=[owner[task.task_name][1] in stopped for task in tasks],
        weight=_weigh(tasks, weights),
        homes=homes,
        warm=warm,
        pinned=wanted,
        leaves=leaves,
    )


def _pinned(
    wanted: Mapping[int, str], number: Mapping[LocationId, int], open_places: Collection[int]
) -> dict[int, int]:
    """Location to replica, of those that can be had; of two that want one location, the first."""
    found: dict[int, int] = {}
    for replica, location in sorted(wanted.items()):
        place = number.get(LocationId(location), NOWHERE)
        if place in open_places:
            found.setdefault(place, replica)
    return found


def _owner_of_each_active(model: JobModel) -> dict[TaskName, tuple[TaskModel, str]]:
    owner: dict[TaskName, tuple[TaskModel, str]] = {}
    for id in sorted(model.containers, key=natural_order):
        for name, task in model.containers[id].actives.items():
            if name in owner:
                raise InvalidGroupingError(f'task "{name}" is active on "{owner[name][1]}" and on "{id}"')
            owner[name] = task, id
    return owner


def _weigh(tasks: Sequence[TaskModel], weights: Mapping[str, int]) -> list[int]:
    """At least 1 each, so that empty tasks are spread as well; all 1 when nothing is known."""
    known = [weights[task.task_name] for task in tasks if task.task_name in weights]
    for task in tasks:
        if weights.get(task.task_name, 0) < 0:
            raise InvalidGroupingError(
                f'task "{task.task_name}" has the weight {weights[task.task_name]}; it must be 0 or more'
            )
    mean = sum(known) // len(known) if known else 0
    return [max(1, weights.get(task.task_name, mean)) for task in tasks]


def _where_state_is(
    tasks: Sequence[TaskModel],
    processors: Sequence[str],
    place_of: Sequence[int],
    number: Mapping[LocationId, int],
    pinned: Sequence[Mapping[int, int]],
    previous: JobModel | None,
) -> tuple[list[list[int]], list[list[int]], list[set[int]]]:
    """`homes`, `warm` and `leaves` of each task. First places of its copies are warm, then that of its active."""
    number_of = {id: p for p, id in enumerate(processors)}
    number_of_task = {task.task_name: t for t, task in enumerate(tasks)}
    homes: list[list[int]] = [[] for _ in tasks]
    leaves: list[set[int]] = [set() for _ in tasks]
    of_copies: list[list[int]] = [[] for _ in tasks]
    of_actives: list[list[int]] = [[] for _ in tasks]
    for id in sorted(previous.containers if previous else (), key=natural_order):
        assert previous is not None
        place = number.get(named_place(previous.containers[id].location_id) or LocationId(""), NOWHERE)
        p = number_of.get(id, NOWHERE)
        for task in previous.containers[id].tasks.values():
            t = number_of_task.get(task.standby_of or task.task_name, NOWHERE)
            if t == NOWHERE or place == NOWHERE:
                continue
            if task.standby_of is None:
                of_actives[t].append(place)
            elif p != NOWHERE and place_of[p] == place:
                homes[t].append(p)
                if any(
                    task.task_name == standby_name(task.standby_of, replica) and wanted_at != place
                    for wanted_at, replica in pinned[t].items()
                ):
                    leaves[t].add(p)
            else:
                of_copies[t].append(place)
    warm = [copies + actives for copies, actives in zip(of_copies, of_actives, strict=True)]
    return [sorted(set(found)) for found in homes], warm, leaves
