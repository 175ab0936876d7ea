"""Random fleets with actives and old copies for the standby properties, small enough to read when one fails."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from mooring.model import (
    ContainerModel,
    JobModel,
    LocationId,
    TaskMode,
    TaskModel,
    TaskName,
    named_location,
    standby_name,
)
from mooring.standby import JobModelWithStandbys, assign_standbys

PROCESSORS = ("2", "10", "01", "b-7", "b-30", "b-1")
LOCATIONS = ("east", "west-1", "west-2", "north", "", "ANY_HOST")
ZONES = ("blue", "green", "red")


@dataclass(frozen=True)
class StandbyFleet:
    """One standby question: `active` maps task to processor, `copies` maps task to the processors that had a copy."""

    active: Mapping[str, str]
    locations: Mapping[str, str]
    copies: Mapping[str, tuple[str, ...]]
    old_locations: Mapping[str, str]
    factor: int
    zones: Mapping[str, str] | None = None
    weights: Mapping[str, int] | None = None
    may_hold: frozenset[str] | None = None
    stopped: frozenset[str] = frozenset()
    pinned: Mapping[str, Mapping[int, str]] = field(default_factory=dict)

    @property
    def model(self) -> JobModel:
        return model_with(self.active, {}, self.locations)

    @property
    def previous(self) -> JobModel:
        return model_with({}, self.copies, self.old_locations)

    def assign(self) -> JobModelWithStandbys:
        return self._assign(self.model, self.previous)

    def again(self, found: JobModelWithStandbys) -> JobModelWithStandbys:
        return self._assign(found.model, found.model)

    def _assign(self, model: JobModel, previous: JobModel) -> JobModelWithStandbys:
        return assign_standbys(
            model, self.factor, previous, self.zones, self.weights, self.may_hold, self.stopped, self.pinned
        )

    def kept_homes(self) -> dict[str, set[str]]:
        """For each task the processors that had a copy of it and are where they were."""
        return {task: {p for p in had if self._is_where_it_was(p)} for task, had in self.copies.items()}

    def _is_where_it_was(self, p: str) -> bool:
        named = named_location(self.locations.get(p))
        return named is not None and named == named_location(self.old_locations.get(p))

    def in_another_order(self, seed: int) -> "StandbyFleet":
        def shuffled(items):
            return random.Random(seed).sample(items, len(items))

        return replace(
            self,
            active=dict(shuffled(list(self.active.items()))),
            locations=dict(shuffled(list(self.locations.items()))),
            copies={task: tuple(shuffled(list(had))) for task, had in shuffled(list(self.copies.items()))},
            old_locations=dict(shuffled(list(self.old_locations.items()))),
            zones=self.zones and dict(shuffled(list(self.zones.items()))),
            pinned={task: dict(shuffled(list(at.items()))) for task, at in shuffled(list(self.pinned.items()))},
        )


def model_with(
    active: Mapping[str, str], copies: Mapping[str, tuple[str, ...]], locations: Mapping[str, str]
) -> JobModel:
    """The job model of these actives and copies, on all processors that have a location."""
    held: dict[str, list[TaskModel]] = {id: [] for id in locations}
    for task, processor in active.items():
        held[processor].append(TaskModel(TaskName(task)))
    for task, processors in copies.items():
        for replica, processor in enumerate(sorted(processors)):
            held[processor].append(standby(task, replica))
    return JobModel.of(
        ContainerModel.of(id, tasks, named_location(locations[id]) or LocationId(locations[id]))
        for id, tasks in held.items()
    )


def standby(task: str, replica: int) -> TaskModel:
    return TaskModel(standby_name(task, replica), task_mode=TaskMode.STANDBY, standby_of=TaskName(task))


def holders(model: JobModel) -> dict[str, list[str]]:
    """For each task the processors with a copy of it; tasks without a copy are listed too."""
    found: dict[str, list[str]] = {name: [] for name in actives(model)}
    for id, container in model.containers.items():
        for held in container.tasks.values():
            if held.standby_of is not None:
                found[held.standby_of].append(id)
    return found


def actives(model: JobModel) -> dict[str, str]:
    return {
        name: id
        for id, container in model.containers.items()
        for name, held in container.tasks.items()
        if held.task_mode is TaskMode.ACTIVE
    }


@st.composite
def standby_fleets(
    draw: st.DrawFn,
    most_tasks: int = 8,
    most_processors: int = 6,
    weighted: bool = False,
    stops: bool = False,
    pins: bool = False,
):
    """Fleets with and without zones, with copies where they may no longer be, and with unbound processors."""
    ids = PROCESSORS[: draw(st.integers(1, most_processors))]
    locations = {id: draw(st.sampled_from(LOCATIONS)) for id in ids}
    names = [f"q-{t}/Partition {t}" for t in range(draw(st.integers(0, most_tasks)))]
    old = {id: draw(st.sampled_from((locations[id], locations[id], "east"))) for id in ids} | {"gone": "west-2"}
    wanted = st.dictionaries(st.integers(0, 1), st.sampled_from([*locations.values(), "north"]), max_size=2)
    some = st.lists(st.sampled_from([*ids, "gone"]), max_size=3, unique=True).map(tuple)
    return StandbyFleet(
        active={name: draw(st.sampled_from(ids)) for name in names},
        locations=locations,
        copies={name: draw(some) for name in names} | {"ended": draw(some)},
        old_locations=old,
        factor=draw(st.integers(2 if pins else 1, 4)),
        zones=draw(st.none() | st.dictionaries(st.sampled_from(LOCATIONS[:4]), st.sampled_from(ZONES), max_size=4)),
        weights={name: draw(st.integers(0, 20)) for name in names} if weighted else None,
        may_hold=draw(st.none() | st.frozensets(st.sampled_from(ids))),
        stopped=draw(st.frozensets(st.sampled_from(ids))) if stops else frozenset(),
        pinned={name: draw(wanted) for name in names} if pins else {},
    )
