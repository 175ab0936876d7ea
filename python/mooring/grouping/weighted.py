"""Groups of equal weight: the planner used when the bytes of tasks are known.

The promise: the weight of each processor differs from the mean by less than the heaviest task, and every processor
holds a task. (With equal weights that is floor or ceil.) Such a plan always exists, and a plan that already keeps the
promise is left alone, however the weights have drifted since. With no more tasks than processors each task has a
processor of its own, planned exactly by `grouping.even`.

Moving few bytes is greedy. A processor that is too heavy gives away just enough. Tasks without a processor go first to
those that would otherwise have to be fed from others, then to their last location, then to the lightest. A processor
that is still too light (a new one) takes tasks from the heaviest, its own location first, until it is near the mean:
going only to the edge of the promise would leave it idle when one task is very heavy.

Weights are multiplied by the number of processors, so that the mean is a whole number and nothing is rounded.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

from mooring.grouping.by_load import ByLoad, Key
from mooring.grouping.even import spread_evenly
from mooring.grouping.problem import NOWHERE, Problem


def weigh(problem: Problem, weights: Mapping[str, int]) -> list[int]:
    """The weight of each task; an unknown one is the mean of the known ones, rounded down, or 0 when none is known."""
    known = [weights[task.task_name] for task in problem.tasks if task.task_name in weights]
    mean = sum(known) // len(known) if known else 0
    return [weights.get(task.task_name, mean) for task in problem.tasks]


def spread_by_weight(problem: Problem, weights: Sequence[int]) -> list[int]:
    """The processor of each task. At least one weight must be above 0."""
    if len(problem.tasks) <= len(problem.processors):
        return spread_evenly(_with_the_heaviest_kept(problem, weights))
    scales = _Scales(problem, weights)
    homeless = [t for t, home in enumerate(problem.home) if home == NOWHERE]
    _place(scales, homeless + _lighten(scales))
    _feed(scales)
    return scales.owner


def _with_the_heaviest_kept(problem: Problem, weights: Sequence[int]) -> Problem:
    """For one task each: of the tasks that a processor held only the heaviest stays, which moves the fewest bytes."""
    staying = {min(tasks, key=lambda t: (-weights[t], t)) for tasks in problem.held() if tasks}
    return replace(problem, home=[home if t in staying else NOWHERE for t, home in enumerate(problem.home)])


class _Scales:
    """Who holds what, and how heavy that is. All weights here are scaled.

    A processor must weigh less than `ceiling`; at or below `line` it is too light. `held[p]` is sorted by weight, then
    by task in reverse, so of equal tasks the last in natural order are at the light end.
    """

    def __init__(self, problem: Problem, weights: Sequence[int]) -> None:
        self.problem = problem
        self.weight = [weight * len(problem.processors) for weight in weights]
        self.mean = sum(weights)
        self.ceiling = self.mean + max(self.weight)
        self.line = max(0, self.mean - max(self.weight))
        self.owner = list(problem.home)
        self.held = [sorted((self.weight[t], -t) for t in tasks) for tasks in problem.held()]
        self.load = [sum(weight for weight, _ in tasks) for tasks in self.held]
        self.lightest = ByLoad(problem.place, self._by_lightness)
        self.givers = ByLoad(problem.place, self._by_ability_to_give)

    def put(self, task: int, p: int) -> None:
        """Give a task that nobody holds to p."""
        insort(self.held[p], (self.weight[task], -task))
        self.owner[task] = p
        self._has_changed(p, self.weight[task])

    def take(self, p: int, position: int) -> int:
        """Take the task at this position in `held[p]` from p."""
        weight, task = self.held[p].pop(position)
        self.owner[-task] = NOWHERE
        self._has_changed(p, -weight)
        return -task

    def can_give(self, p: int) -> bool:
        """Whether p is above the mean with a task that somebody below could take without getting above it."""
        return self.load[p] > self.mean and self.held[p][self.at_least(1, p)][0] <= self.mean

    def at_least(self, weight: int, p: int) -> int:
        """The position of p's lightest task of this weight or more, of its heaviest when none is."""
        return min(bisect_left(self.held[p], weight, key=_weight), len(self.held[p]) - 1)

    def at_most(self, weight: int, p: int) -> int:
        """The position of p's heaviest task of this weight or less, of its lightest above 0 when none is."""
        return max(bisect_right(self.held[p], weight, key=_weight) - 1, self.at_least(1, p))

    def _has_changed(self, p: int, by: int) -> None:
        self.load[p] += by
        self.lightest.update(p)
        self.givers.update(p)

    def _by_lightness(self, p: int) -> Key:
        return self.load[p], len(self.held[p]), self.problem.load[p]

    def _by_ability_to_give(self, p: int) -> Key | None:
        return (not self.can_give(p), -self.load[p]) if len(self.held[p]) > 1 else None


_weight = itemgetter(0)


def _lighten(scales: _Scales) -> list[int]:
    """Take from each that reaches the ceiling the lightest task that is enough, after heaviest ones until one is."""
    taken = []
    for p in range(len(scales.held)):
        while (excess := scales.load[p] - scales.ceiling) >= 0:
            taken.append(scales.take(p, scales.at_least(excess + 1, p)))
    return taken


def _place(scales: _Scales, tasks: Sequence[int]) -> None:
    """Give these tasks processors, heaviest first: at their last location up to the mean, the rest to the lightest.

    Enough of them is held back for processors that are too light; otherwise those would have to be fed with tasks that
    need not move.
    """
    left = sum(scales.weight[t] for t in tasks)
    hunger = sum(_hunger(scales, load) for load in scales.load)
    rest = []
    for task in sorted(tasks, key=lambda t: (-scales.weight[t], t)):
        weight, near = scales.weight[task], scales.lightest.first_at(scales.problem.wish[task])
        if near is not None and scales.load[near] + weight <= scales.mean:
            sated = _hunger(scales, scales.load[near]) - _hunger(scales, scales.load[near] + weight)
            if left - weight >= hunger - sated:
                left, hunger = left - weight, hunger - sated
                scales.put(task, near)
                continue
        rest.append(task)
    for task in rest:
        scales.put(task, _lightest_or_near(scales, task))


def _hunger(scales: _Scales, load: int) -> int:
    """How much a processor of this load lacks to be no longer too light."""
    return max(0, scales.line + 1 - load)


def _lightest_or_near(scales: _Scales, task: int) -> int:
    """The lightest processor at the task's last location if nothing breaks by it, else of all."""
    lightest, near = scales.lightest.first(), scales.lightest.first_at(scales.problem.wish[task])
    assert lightest is not None
    if near is None or scales.load[near] + scales.weight[task] >= scales.ceiling:
        return lightest
    return near if scales.load[lightest] > scales.line or scales.load[near] <= scales.line else lightest


def _feed(scales: _Scales) -> None:
    """Fill who is too light up to the mean from those above it; who is empty gets a task from anybody who has two."""
    hungry = [p for p in range(len(scales.load)) if scales.load[p] <= scales.line]
    for p in sorted(hungry, key=lambda p: (scales.load[p], p)):
        while (gift := _gift(scales, p)) is not None:
            scales.put(scales.take(*gift), p)


def _gift(scales: _Scales, p: int) -> tuple[int, int] | None:
    """The next giver for p and which task it gives: not above p's room, nor the giver's excess if possible."""
    room = scales.mean - scales.load[p]
    heaviest = scales.givers.first()
    for giver in (scales.givers.first_at(scales.problem.place[p]), heaviest):
        if giver is not None and scales.can_give(giver):
            position = scales.at_most(min(room, scales.load[giver] - scales.mean), giver)
            if scales.held[giver][position][0] <= room:
                return giver, position
    return (heaviest, 0) if heaviest is not None and not scales.held[p] else None
