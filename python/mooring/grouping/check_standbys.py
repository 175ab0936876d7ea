"""Checks the standbys of a job model against their promises, independently of the planner.

It shares no code with `mooring.standby`, so that it finds the planner's mistakes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mooring.errors import InvalidGroupingError
from mooring.model import ANY_HOST, JobModel, TaskMode, TaskModel, natural_order


def check_standbys(
    model: JobModel,
    task_models: Collection[TaskModel],
    zones: Mapping[str, str] | None = None,
    factor: int | None = None,
    weights: Mapping[str, int] | None = None,
    may_hold: Collection[str] | None = None,
    stopped: Collection[str] = (),
    pinned: Mapping[str, Mapping[int, str]] | None = None,
) -> None:
    """Raise `InvalidGroupingError` unless the standbys in the job model keep their promises; the message names one.

    Always checked: each is a standby of one of these tasks with the same partitions, and is there once. It is at a
    location without its active and without another copy. Only processors in `may_hold` hold standbys; None means all.
    Tasks that are active on a processor in `stopped` have none.
    With the replication `factor`: a task has at most `factor - 1` standbys, and as many as the locations allow. No
    simple move makes the load more even; with `weights`, only processors above the mean plus the heaviest copy count.
    With `zones`, location to zone: a task is in as many zones as it can be.
    With `pinned`, task name to replica to the wanted location: the copy is there, if another copy of the task could be
    given up for it and no rule above forbids it.
    """
    expected: dict[str, TaskModel] = {task.task_name: task for task in task_models}
    held = _Held.of(model)
    able = {
        id: location
        for id, location in held.location.items()
        if location is not None and (may_hold is None or id in may_hold)
    }
    _check_each_is_a_copy(model, expected)
    _check_locations(held, able)
    _check_stopped(held, stopped)
    zone: dict[str | None, str] = dict.fromkeys(held.location.values(), "")
    zone.update(zones or {})
    _check_zones(held, able, zone)
    _check_pinned(held, able, zone, pinned or {}, stopped)
    if factor is not None:
        _check_counts(held, able, expected, factor, stopped)
        _check_even(held, able, zone, weights or {}, pinned or {})


@dataclass(frozen=True, slots=True)
class _Held:
    """What a job model has where: `active` and `copies` map task to processors, `location` processor to location."""

    location: Mapping[str, str | None]
    active: Mapping[str, str]
    copies: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, model: JobModel) -> _Held:
        location = {
            id: None if container.location_id in (None, "", ANY_HOST) else container.location_id
            for id, container in model.containers.items()
        }
        active: dict[str, str] = {}
        copies: dict[str, list[str]] = {}
        for id, container in model.containers.items():
            for name, task in container.tasks.items():
                if task.task_mode is TaskMode.ACTIVE:
                    active[name] = id
                    copies.setdefault(name, [])
                else:
                    copies.setdefault(task.standby_of or "", []).append(id)
        return cls(location, active, copies)

    def active_location(self, name: str) -> str | None:
        return self.location[self.active[name]]

    def locations(self, name: str) -> list[str | None]:
        """The locations of the task's copies, in the order of `copies`."""
        return [self.location[id] for id in self.copies[name]]


def _check_each_is_a_copy(model: JobModel, expected: Mapping[str, TaskModel]) -> None:
    seen: dict[str, str] = {}
    for id, container in model.containers.items():
        for name, task in container.tasks.items():
            if task.task_mode is not TaskMode.STANDBY:
                continue
            where = f'standby "{name}" on processor "{id}"'
            if name in expected:
                raise InvalidGroupingError(f"{where} has the name of a task that must be active")
            if task.standby_of is None:
                raise InvalidGroupingError(f"{where} does not say which task it copies")
            if task.standby_of not in expected:
                raise InvalidGroupingError(f'{where} copies "{task.standby_of}", which is no task')
            if name in seen:
                raise InvalidGroupingError(f'{where} is also on processor "{seen[name]}"')
            seen[name] = id
            original = expected[task.standby_of]
            if (task.system_stream_partitions, task.changelog_partition) != (
                original.system_stream_partitions,
                original.changelog_partition,
            ):
                raise InvalidGroupingError(f'{where} has other partitions than "{task.standby_of}"')


def _check_locations(held: _Held, able: Mapping[str, str]) -> None:
    for name, processors in held.copies.items():
        here: dict[str, str] = {}
        for id in processors:
            if id not in able:
                why = "has no location" if held.location[id] is None else "may not hold copies"
                raise InvalidGroupingError(f'a copy of task "{name}" is on processor "{id}", which {why}')
            if held.active_location(name) is None:
                raise InvalidGroupingError(f'task "{name}" has a copy, but the location of its active is not known')
            if able[id] == held.active_location(name):
                raise InvalidGroupingError(f'task "{name}" and its copy on processor "{id}" are both at "{able[id]}"')
            if able[id] in here:
                raise InvalidGroupingError(
                    f'the copies of task "{name}" on the processors "{here[able[id]]}" and "{id}" are both at'
                    f' "{able[id]}"'
                )
            here[able[id]] = id


def _check_stopped(held: _Held, stopped: Collection[str]) -> None:
    for name, id in held.active.items():
        if id in stopped and held.copies[name]:
            raise InvalidGroupingError(
                f'task "{name}" has a copy on processor "{held.copies[name][0]}"; the standbys of processor "{id}" are'
                " stopped"
            )


def _check_zones(held: _Held, able: Mapping[str, str], zone: Mapping[str | None, str]) -> None:
    there = {zone[location] for location in able.values()}
    for name, processors in held.copies.items():
        if processors:
            own = zone[held.active_location(name)]
            used = {zone[location] for location in held.locations(name)} - {own}
            could = min(len(processors), len(there - {own}))
            if len(used) < could:
                raise InvalidGroupingError(
                    f'the {len(processors)} copies of task "{name}" are in {len(used)} zones besides that of the'
                    f" active; they could be in {could}"
                )


def _check_counts(
    held: _Held, able: Mapping[str, str], expected: Mapping[str, TaskModel], factor: int, stopped: Collection[str]
) -> None:
    for name, processors in held.copies.items():
        if held.active[name] in stopped:
            continue
        free_names = sum(f"Standby-{name}-{replica}" not in expected for replica in range(factor - 1))
        own = held.active_location(name)
        could = 0 if own is None else min(free_names, len(set(able.values()) - {own}))
        if len(processors) > factor - 1:
            raise InvalidGroupingError(f'task "{name}" has {len(processors)} copies; the factor {factor} allows fewer')
        if len(processors) < could:
            raise InvalidGroupingError(f'task "{name}" has {len(processors)} copies; there is a place for {could}')


def _check_pinned(
    held: _Held,
    able: Mapping[str, str],
    zone: Mapping[str | None, str],
    pinned: Mapping[str, Mapping[int, str]],
    stopped: Collection[str],
) -> None:
    for name, wanted in pinned.items():
        if name not in held.active or held.active[name] in stopped:
            continue
        own, there = held.active_location(name), held.locations(name)
        for replica, location in wanted.items():
            others = [other for other in there if other not in wanted.values()]
            is_free = location in able.values() and own not in (None, location) and location not in there
            for given_up in others if is_free else ():
                after = [*(other for other in there if other != given_up), location]
                if len({zone[at] for at in (own, *after)}) >= len({zone[at] for at in (own, *there)}):
                    raise InvalidGroupingError(
                        f'replica {replica} of task "{name}" is wanted at "{location}"; its copies are at {there}'
                    )


def _check_even(
    held: _Held,
    able: Mapping[str, str],
    zone: Mapping[str | None, str],
    weights: Mapping[str, int],
    pinned: Mapping[str, Mapping[int, str]],
) -> None:
    """Check that no copy without a pin could move to a processor that is lighter by at least twice its weight."""
    weight = _weigh(held, weights)
    load = Counter(dict.fromkeys(able, 0))
    on: dict[str, list[str]] = {id: [] for id in able}
    for name, processors in held.copies.items():
        for id in processors:
            load[id] += weight[name]
            on[id].append(name)
    lightest: dict[str, dict[str, str]] = {}
    for id in sorted(able, key=lambda id: (load[id], natural_order(id))):
        lightest.setdefault(zone[able[id]], {}).setdefault(able[id], id)
    carried = [name for name in weight if held.copies[name]]
    allowed = 0.0
    if any(weights.values()) and carried:
        allowed = sum(load.values()) / len(able) + max(weight[name] for name in carried)
    for id in able:
        free = [name for name in on[id] if able[id] not in pinned.get(name, {}).values()]
        for name in free if load[id] > allowed else ():
            other = _lighter_processor(held, zone, lightest, load, name, able[id], load[id] - 2 * weight[name])
            if other is not None:
                raise InvalidGroupingError(
                    f'processor "{id}" has copies of the weight {load[id]}, and "{other}" of {load[other]}: the'
                    f' copy of task "{name}" could move'
                )


def _lighter_processor(
    held: _Held,
    zone: Mapping[str | None, str],
    lightest: Mapping[str, Mapping[str, str]],
    load: Mapping[str, int],
    name: str,
    source: str,
    most: int,
) -> str | None:
    """A processor with a load of at most `most` that could take the task's copy from `source`; None if there is none.

    `lightest` maps zone and location to the lightest processor there, the lightest location first. In each zone only
    the first location without another copy matters.
    """
    own, before = held.active_location(name), held.locations(name)
    zones_left = [zone[location] for location in (own, *before) if location != source]
    least = len({zone[location] for location in (own, *before)})
    for its_zone, locations in lightest.items():
        if len({*zones_left, its_zone}) >= least:
            for location, id in locations.items():
                if load[id] > most:
                    break
                if location == source or (location != own and location not in before):
                    return id
    return None


def _weigh(held: _Held, weights: Mapping[str, int]) -> dict[str, int]:
    known = [weights[name] for name in held.active if name in weights]
    mean = sum(known) // len(known) if known else 0
    return {name: max(1, weights.get(name, mean)) for name in held.copies}
