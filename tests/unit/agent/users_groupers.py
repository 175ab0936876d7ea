"""Groupers as users write them, good and bad; the settings name them `tests.unit.agent.users_groupers:Class`."""

import sys
from collections import defaultdict

from mooring.grouping import HostAwareGrouper, TaskNameGrouper
from mooring.model import ContainerModel, natural_order


class RoundRobin(TaskNameGrouper):
    """Even, and the same each time; it does not care where tasks were."""

    def group(self, task_models, task_locality, processor_locality, previous=None):
        ids = sorted(processor_locality, key=natural_order)
        tasks = sorted(task_models, key=lambda task: natural_order(task.task_name))
        held = defaultdict(list)
        for number, task in enumerate(tasks):
            held[ids[number % len(ids)]].append(task)
        return {ContainerModel.of(id, own) for id, own in held.items()}


class OnOne(TaskNameGrouper):
    """Uneven, and says nothing of it."""

    def group(self, task_models, task_locality, processor_locality, previous=None):
        return frozenset({ContainerModel.of(min(processor_locality), task_models)})


class OnOneAsItSays(OnOne):
    most_processors = 1


class ClaimsFewMoves(RoundRobin):
    moves_fewest = True


class NeverTwiceTheSame(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        ids = sorted(processor_locality)
        first = 0 if previous is None else 1 + ids.index(min(previous.containers))
        held = {id: [] for id in ids}
        for number, task in enumerate(sorted(task_models, key=lambda task: task.task_name)):
            held[ids[(first + number) % len(ids)]].append(task)
        return frozenset(ContainerModel.of(id, own) for id, own in held.items())


class Raises(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        raise ValueError("the map is upside down")


class Leaves(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        sys.exit(3)


class Forgets(RoundRobin):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        return super().group(sorted(task_models, key=str)[1:], task_locality, processor_locality)


class Invents(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        return frozenset({ContainerModel.of("a processor of its own", task_models)})


class AnswersNothing(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        return None


class AnswersText(TaskNameGrouper):
    def group(self, task_models, task_locality, processor_locality, previous=None):
        return ["processor 1"]


class FailsLater(HostAwareGrouper):
    """Good for two processors, at a loss with three."""

    def group(self, task_models, task_locality, processor_locality, previous=None):
        if len(processor_locality) > 2:
            raise RuntimeError("three is a crowd")
        return super().group(task_models, task_locality, processor_locality, previous)


class WantsMore(TaskNameGrouper):
    def __init__(self, map_of_the_house):
        self.map = map_of_the_house

    def group(self, task_models, task_locality, processor_locality, previous=None):
        return frozenset()


class Unfinished(TaskNameGrouper):
    pass


class NoGrouper:
    pass
