"""The standby problem in numbers: which processors may hold copies of which tasks. The planner works on these numbers.

Tasks, processors, locations and zones are numbered in natural order of their names. So the plan does not depend on the
order in which the caller listed them. All locations without a zone count as one zone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mooring.errors import InvalidGroupingError
from mooring.model import JobModel, LocationId, TaskModel, TaskName, named_location, natural_order, standby_name

NOWHERE: Final = -1
"""The number for a location that is not known, and for a processor that may not hold copies."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The active tasks, and the processors that may hold copies of them.

    `tasks`, `processors` and `location_names` are lists of names; a position in a list is the number of that task,
    processor or location. `location[p]` is the location of processor p, `busy[p]` its number of active tasks.
    `zone[location]` is the zone of a location. `open_locations` are the locations with a processor that may hold
    copies, `open_zones` their zones.

    For task t: `active_location[t]` is the location of its active, or NOWHERE. `gets_no_copies[t]` is true when its
    standbys are stopped. `weight[t]` is at least 1. `homes[t]` are the processors that had a copy of t and are still at
    the same location. `warm[t]` are other locations where state of t was last. `pinned[t]` maps locations where an
    operator wants a copy of t to the number of that replica. `leaves[t]` are the homes whose replica is pinned to
    another location.
    """

    tasks: Sequence[TaskModel]
    processors: Sequence[str]
    location_names: Sequence[LocationId]
    location: Sequence[int]
    zone: Sequence[int]
    busy: Sequence[int]
    open_locations: frozenset[int]
    open_zones: frozenset[int]
    active_location: Sequence[int]
    gets_no_copies: Sequence[bool]
    weight: Sequence[int]
    homes: Sequence[Sequence[int]]
    warm: Sequence[Sequence[int]]
    pinned: Sequence[Mapping[int, int]]
    leaves: Sequence[Collection[int]]

    def locations_for(self, task: int) -> int:
        """How many locations may hold a copy of the task: all open ones but that of its active.

        0 when the task gets no copies, and when the location of its active is not known.
        """
        if self.gets_no_copies[task] or self.active_location[task] == NOWHERE:
            return 0
        return len(self.open_locations - {self.active_location[task]})

    def zones_for(self, task: int) -> int:
        """How many open zones there are besides the zone of the task's active."""
        return len(self.open_zones - {self.active_zone(task)})

    def active_zone(self, task: int) -> int:
        """The zone of the task's active; NOWHERE when its location is not known."""
        location = self.active_location[task]
        return NOWHERE if location == NOWHERE else self.zone[location]


def problem_of(
    model: JobModel,
    zones: Mapping[str, str],
    weights: Mapping[str, int],
    previous: JobModel | None,
    may_hold: Collection[str] | None,
    stopped: Collection[str],
    pinned: Mapping[str, Mapping[int, str]],
) -> Problem:
    """The problem in numbers. `assign_standbys` explains the arguments.

    Raises InvalidGroupingError for a task that is active twice and for a negative weight.
    """
    owner = _owner_of_each_active(model)
    location_by_id = {id: named_location(container.location_id) for id, container in model.containers.items()}
    location_names = sorted({location for location in location_by_id.values() if location}, key=natural_order)
    number = {location: n for n, location in enumerate(location_names)}
    zone_names = sorted({zones.get(location, "") for location in location_names}, key=natural_order)
    zone_of = [zone_names.index(zones.get(location, "")) for location in location_names]
    tasks = sorted((task for task, _ in owner.values()), key=lambda task: natural_order(task.task_name))
    processors = sorted(
        (id for id, location in location_by_id.items() if location and (may_hold is None or id in may_hold)),
        key=natural_order,
    )
    location_of = [number[location] for location in map(location_by_id.__getitem__, processors) if location]
    open_locations = frozenset(location_of)
    pinned_of = [_pinned_locations(pinned.get(task.task_name, {}), number, open_locations) for task in tasks]
    homes, warm, leaves = _where_state_is(tasks, processors, location_of, number, pinned_of, previous)
    return Problem(
        tasks=tasks,
        processors=processors,
        location_names=location_names,
        location=location_of,
        zone=zone_of,
        busy=[len(model.containers[id].actives) for id in processors],
        open_locations=open_locations,
        open_zones=frozenset(zone_of[location] for location in open_locations),
        active_location=[
            number[location] if (location := location_by_id[owner[task.task_name][1]]) else NOWHERE for task in tasks
        ],
        gets_no_copies=[owner[task.task_name][1] in stopped for task in tasks],
        weight=_weigh(tasks, weights),
        homes=homes,
        warm=warm,
        pinned=pinned_of,
        leaves=leaves,
    )


def _pinned_locations(
    wanted: Mapping[int, str], number: Mapping[LocationId, int], open_locations: Collection[int]
) -> dict[int, int]:
    """Location to replica, for the open locations among the wanted ones. Of two replicas, the smaller number counts."""
    found: dict[int, int] = {}
    for replica, name in sorted(wanted.items()):
        location = number.get(LocationId(name), NOWHERE)
        if location in open_locations:
            found.setdefault(location, replica)
    return found


def _owner_of_each_active(model: JobModel) -> dict[TaskName, tuple[TaskModel, str]]:
    """Task name to the active task and its processor. InvalidGroupingError for a task that is active twice."""
    owner: dict[TaskName, tuple[TaskModel, str]] = {}
    for id in sorted(model.containers, key=natural_order):
        for name, task in model.containers[id].actives.items():
            if name in owner:
                raise InvalidGroupingError(f'task "{name}" is active on "{owner[name][1]}" and on "{id}"')
            owner[name] = task, id
    return owner


def _weigh(tasks: Sequence[TaskModel], weights: Mapping[str, int]) -> list[int]:
    """The weight of each task: the given one, or the mean of the given ones, and at least 1.

    At least 1, so that empty tasks are spread as well. All weights are 1 when none is given.
    """
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
    location_of: Sequence[int],
    number: Mapping[LocationId, int],
    pinned: Sequence[Mapping[int, int]],
    previous: JobModel | None,
) -> tuple[list[list[int]], list[list[int]], list[set[int]]]:
    """`homes`, `warm` and `leaves` of each task. In `warm`, locations of copies come before that of the active."""
    number_of = {id: p for p, id in enumerate(processors)}
    number_of_task = {task.task_name: t for t, task in enumerate(tasks)}
    homes: list[list[int]] = [[] for _ in tasks]
    leaves: list[set[int]] = [set() for _ in tasks]
    of_copies: list[list[int]] = [[] for _ in tasks]
    of_actives: list[list[int]] = [[] for _ in tasks]
    for id in sorted(previous.containers if previous else (), key=natural_order):
        assert previous is not None
        location = number.get(named_location(previous.containers[id].location_id) or LocationId(""), NOWHERE)
        p = number_of.get(id, NOWHERE)
        for task in previous.containers[id].tasks.values():
            t = number_of_task.get(task.standby_of or task.task_name, NOWHERE)
            if t == NOWHERE or location == NOWHERE:
                continue
            if task.standby_of is None:
                of_actives[t].append(location)
            elif p != NOWHERE and location_of[p] == location:
                homes[t].append(p)
                if any(
                    task.task_name == standby_name(task.standby_of, replica) and wanted_at != location
                    for wanted_at, replica in pinned[t].items()
                ):
                    leaves[t].add(p)
            else:
                of_copies[t].append(location)
    warm = [copies + actives for copies, actives in zip(of_copies, of_actives, strict=True)]
    return [sorted(set(found)) for found in homes], warm, leaves
