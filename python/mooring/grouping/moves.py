"""Lists the moves of active tasks from one job model to the next."""

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.model import JobModel, LocationId, TaskName, named_location, natural_order


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a task: the task changes its processor, or its processor changes the location.

    The source is None for a new task. A location is None when it is not known. `state_bytes` is the size of the task's
    state, None when it is not known.
    """

    task_name: TaskName
    source_processor: str | None
    source_location: LocationId | None
    destination_processor: str
    destination_location: LocationId | None
    state_bytes: int | None = None

    @property
    def changes_processor(self) -> bool:
        """Whether another processor holds the task now; True for a new task."""
        return self.source_processor != self.destination_processor

    @property
    def stays_at_location(self) -> bool:
        """Whether the state is already at the destination, so that nothing must be fetched."""
        return self.source_location is not None and self.source_location == self.destination_location


@dataclass(frozen=True, slots=True)
class MovePlan:
    """All moves between two job models, in natural order of the tasks."""

    moves: tuple[Move, ...]

    @property
    def tasks_to_fetch(self) -> int:
        """The number of tasks that come to a location without their state."""
        return sum(not move.stays_at_location for move in self.moves)

    @property
    def bytes_to_fetch(self) -> int:
        """The bytes that those tasks must fetch; unknown sizes count as 0."""
        return sum(move.state_bytes or 0 for move in self.moves if not move.stays_at_location)


def plan_moves(before: JobModel | None, after: JobModel, state_bytes: Mapping[str, int] | None = None) -> MovePlan:
    """List the moves when `after` replaces `before`. Tasks that are gone and standbys are not listed.

    With None as `before`, every task is new. `state_bytes` maps task name to bytes, for tasks with a known size.
    """
    sources = _whereabouts(before) if before else {}
    known_bytes = state_bytes or {}
    moves = []
    for name, (processor, location) in sorted(_whereabouts(after).items(), key=lambda entry: natural_order(entry[0])):
        source_processor, source_location = sources.get(name, (None, None))
        if (source_processor, source_location) != (processor, location):
            moves.append(Move(name, source_processor, source_location, processor, location, known_bytes.get(name)))
    return MovePlan(tuple(moves))


def _whereabouts(model: JobModel) -> dict[TaskName, tuple[str, LocationId | None]]:
    return {
        name: (container.processor_id, named_location(container.location_id))
        for container in model.containers.values()
        for name in container.actives
    }
