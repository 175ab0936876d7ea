"""The groupers that keep tasks where their state is, on all processors or on some of them."""

from collections.abc import Collection, Mapping

from mooring.errors import InvalidGroupingError
from mooring.grouping.contract import TaskNameGrouper
from mooring.grouping.even import spread_evenly
from mooring.grouping.fewer import processors_to_use
from mooring.grouping.problem import Problem, containers_of, pose
from mooring.grouping.refusals import refuse_bad_count, refuse_impossible, refuse_too_few_tasks, refuse_unknown
from mooring.grouping.weighted import spread_by_weight, weigh
from mooring.model import ContainerModel, JobModel, TaskModel


class HostAwareGrouper(TaskNameGrouper):
    """Spreads tasks evenly and moves few: a task goes to its previous processor, else its last location, else anywhere.

    `weights` maps task name to bytes of state. Without it, or when all weights are 0, all tasks count the same, and the
    plan is optimal: see `grouping.even`. With it, the plan is even by bytes, and few bytes move: see
    `grouping.weighted`. A task without a weight counts as the mean of the others.

    `load` maps processor id to its load from other queries, in tasks or bytes. Each query is grouped evenly on its own.
    `load` decides only which processors get one task more, where tasks can not be divided evenly.

    Grouping this class's own output again changes nothing. 100,000 tasks on 10,000 processors take seconds on one core.
    """

    moves_fewest = True

    def __init__(self, weights: Mapping[str, int] | None = None, load: Mapping[str, int] | None = None) -> None:
        for name, weight in (weights or {}).items():
            if weight < 0:
                raise InvalidGroupingError(f'task "{name}" has the weight {weight}; it must be 0 or more')
        self._weights = dict(weights or {})
        self._load = dict(load or {})

    def group(
        self,
        task_models: Collection[TaskModel],
        task_locality: Mapping[str, str],
        processor_locality: Mapping[str, str],
        previous: JobModel | None = None,
    ) -> frozenset[ContainerModel]:
        """See `TaskNameGrouper.group`."""
        refuse_impossible(task_models, list(processor_locality))
        problem = pose(task_models, task_locality, processor_locality, previous, self._load)
        weights = weigh(problem, self._weights)
        chosen = self._choose(problem, weights)
        if len(chosen) < len(processor_locality):
            processor_locality = {id: processor_locality[id] for id in chosen}
            problem = pose(task_models, task_locality, processor_locality, previous, self._load)
        owner = spread_by_weight(problem, weights) if any(weights) else spread_evenly(problem)
        return containers_of(problem, owner, processor_locality)

    def _choose(self, problem: Problem, weights: list[int]) -> Collection[str]:
        """The processors to use. InvalidGroupingError where the tasks can not be spread over them."""
        most = self.most_processors
        return problem.processors if most is None else processors_to_use(problem, weights, most)


class GroupByContainerIds(HostAwareGrouper):
    """Groups on all processors, whatever their ids, as `HostAwareGrouper` does.

    `container_count` is for the older form `group(tasks)`. That form uses the containers "0" to "container_count - 1",
    or one for each task if there are fewer tasks.
    """

    def __init__(
        self,
        container_count: int = 1,
        weights: Mapping[str, int] | None = None,
        load: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(weights, load)
        refuse_bad_count(container_count)
        self.container_ids = [str(number) for number in range(container_count)]


class GroupByContainerCount(HostAwareGrouper):
    """Groups on a fixed number of processors, or on all if there are fewer. Each gets at least one task.

    Processors that hold the most of the query's tasks (of its bytes, with weights) come first, then those at the last
    location of most tasks, then the smallest ids. When the count changes, only the tasks move that must move for even
    sizes. `InvalidGroupingError` for a count below 1, and for fewer tasks than the count.
    """

    def __init__(
        self, container_count: int, weights: Mapping[str, int] | None = None, load: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(weights, load)
        refuse_bad_count(container_count)
        self.most_processors: int = container_count
        self.container_ids = [str(number) for number in range(container_count)]

    def _choose(self, problem: Problem, weights: list[int]) -> Collection[str]:
        refuse_too_few_tasks(self.most_processors, len(problem.tasks))
        return super()._choose(problem, weights)

    def _processors_to_balance(self, before: JobModel) -> Mapping[str, str]:
        return {**dict.fromkeys(self.container_ids, ""), **super()._processors_to_balance(before)}


class SingleContainerGrouper(HostAwareGrouper):
    """Puts all tasks on one processor: the one that holds the most tasks, else the one where most were last.

    With weights it is the one that holds the most bytes. Of several, the one with the smallest id is taken.
    With a `container_id` it is that processor; `InvalidGroupingError` when there is no such processor.
    """

    most_processors = 1

    def __init__(
        self,
        container_id: str | None = None,
        weights: Mapping[str, int] | None = None,
        load: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(weights, load)
        self._container_id = container_id
        self.container_ids = [container_id or "0"]

    def _choose(self, problem: Problem, weights: list[int]) -> Collection[str]:
        if self._container_id is None:
            return super()._choose(problem, weights)
        refuse_unknown(self._container_id, problem.processors)
        return [self._container_id]
