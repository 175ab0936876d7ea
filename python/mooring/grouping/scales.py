"""Processors on the scales: who holds what, how heavy that is, and who can take or give."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from operator import itemgetter

from mooring.grouping.problem import NOWHERE, Problem
from mooring.grouping.ranking import Key, Ranking

_weight = itemgetter(0)


class Scales:
    """The plan in the making, for more tasks than processors, of which one at least weighs something.

    Weights are multiplied so that the mean, the fair share and three quarters of it are whole numbers, and so that all
    differ by 0 or by more than there are processors: one more or less for each of them decides nothing. So the plan
    is the same when all weights grow alike. A processor is too heavy from `ceiling` on: the mean and the heaviest task.
    It is too light up to `line`: the mean without the heaviest task, or three quarters of the fair share if that is
    more.

    `held[p]` is sorted by weight, then by task in reverse, so of equal tasks the last in natural order leaves first.
    """

    def __init__(self, problem: Problem, weights: Sequence[int]) -> None:
        self.problem = problem
        all_of_them = len(problem.processors)
        shared, sharing = _without_giants(weights, all_of_them)
        unit = 4 * (all_of_them + 1)
        self.weight = [weight * all_of_them * sharing * unit for weight in weights]
        mean = sum(weights) * sharing * unit
        self.fair = shared * all_of_them * unit
        self.ceiling = mean + max(self.weight)
        self.line = max(mean - max(self.weight), self.fair * 3 // 4)
        self.owner = list(problem.home)
        self.held = [sorted((self.weight[t], -t) for t in tasks) for tasks in problem.held()]
        self.load = [sum(weight for weight, _ in tasks) for tasks in self.held]
        self.lightest = Ranking(problem.place, self._by_lightness)
        self.heaviest = Ranking(problem.place, self._by_heaviness)
        self.finest = Ranking(problem.place, self._by_lightest_task)

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

    def hunger(self, load: int) -> int:
        """How much a processor of this load lacks to be no longer too light."""
        return max(0, self.line + 1 - load)

    def can_give(self, p: int) -> bool:
        """Whether p is above the fair share with a task that somebody below could take without getting above it."""
        return self.load[p] > self.fair and self.held[p][self.at_least(1, p)][0] <= self.fair

    def at_least(self, weight: int, p: int) -> int:
        """The position of p's lightest task of this weight or more, of its heaviest when none is."""
        return min(bisect_left(self.held[p], weight, key=_weight), len(self.held[p]) - 1)

    def at_most(self, weight: int, p: int) -> int:
        """The position of p's heaviest task of this weight or less, of its lightest above 0 when none is."""
        return max(bisect_right(self.held[p], weight, key=_weight) - 1, self.at_least(1, p))

    def _has_changed(self, p: int, by: int) -> None:
        self.load[p] += by
        for ranking in (self.lightest, self.heaviest, self.finest):
            ranking.update(p)

    def _by_lightness(self, p: int) -> Key:
        return self.load[p], len(self.held[p]), self.problem.load[p]

    def _by_heaviness(self, p: int) -> Key | None:
        """Those that hold two tasks or more; those that can give come first."""
        return (not self.can_give(p), -self.load[p]) if len(self.held[p]) > 1 else None

    def _by_lightest_task(self, p: int) -> Key | None:
        """Those that can give."""
        return (self.held[p][self.at_least(1, p)][0],) if self.can_give(p) else None


def _without_giants(weights: Sequence[int], processors: int) -> tuple[int, int]:
    """What is shared and by how many: giants need a processor each, tasks heavier than the mean of what is left."""
    left = sum(weights)
    for weight in sorted(weights, reverse=True):
        if processors == 1 or weight * processors <= left:
            break
        left, processors = left - weight, processors - 1
    return left, processors
