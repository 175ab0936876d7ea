"""The weights of processors and their tasks while a weighted plan is made, and which processors can take or give."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from operator import itemgetter

from mooring.grouping.problem import NOWHERE, Problem
from mooring.grouping.ranking import Key, Ranking

_weight = itemgetter(0)


class Scales:
    """The plan while it is made, for more tasks than processors. At least one weight must be above 0.

    Weights are multiplied by a factor. With it the mean, the fair share and three quarters of it are whole numbers, and
    two weights differ by 0 or by more than the number of processors. So rounding decides nothing, and the plan is the
    same when all weights grow by one factor. A processor is too heavy at `ceiling` or more: the mean plus the heaviest
    task. It is too light at `line` or less: the greater of the mean minus the heaviest task, and three quarters of the
    fair share.

    `held[p]` is sorted by weight, then by task in reverse: of equal tasks, the last in natural order leaves first.
    """

    def __init__(self, problem: Problem, weights: Sequence[int]) -> None:
        self.problem = problem
        processors = len(problem.processors)
        shared, sharing = _without_giants(weights, processors)
        unit = 4 * (processors + 1)
        self.weight = [weight * processors * sharing * unit for weight in weights]
        mean = sum(weights) * sharing * unit
        self.fair = shared * processors * unit
        self.ceiling = mean + max(self.weight)
        self.line = max(mean - max(self.weight), self.fair * 3 // 4)
        self.owner = list(problem.home)
        self.held = [sorted((self.weight[t], -t) for t in tasks) for tasks in problem.held()]
        self.load = [sum(weight for weight, _ in tasks) for tasks in self.held]
        self.lightest = Ranking(problem.location, self._by_lightness)
        self.heaviest = Ranking(problem.location, self._by_heaviness)
        self.with_lightest_task = Ranking(problem.location, self._by_lightest_task)

    def put(self, task: int, p: int) -> None:
        """Give a task without a processor to p."""
        insort(self.held[p], (self.weight[task], -task))
        self.owner[task] = p
        self._has_changed(p, self.weight[task])

    def take(self, p: int, position: int) -> int:
        """Take the task at this position in `held[p]` from p, and return it."""
        weight, task = self.held[p].pop(position)
        self.owner[-task] = NOWHERE
        self._has_changed(p, -weight)
        return -task

    def shortage(self, load: int) -> int:
        """The weight that a processor of this load lacks until it is no longer too light."""
        return max(0, self.line + 1 - load)

    def can_give(self, p: int) -> bool:
        """Whether p is above the fair share and has a task that a processor below can take without exceeding it."""
        return self.load[p] > self.fair and self.held[p][self.at_least(1, p)][0] <= self.fair

    def at_least(self, weight: int, p: int) -> int:
        """The position of p's lightest task of at least this weight, or of its heaviest task when there is none."""
        return min(bisect_left(self.held[p], weight, key=_weight), len(self.held[p]) - 1)

    def at_most(self, weight: int, p: int) -> int:
        """The position of p's heaviest task of at most this weight, or of its lightest one above 0 when none is."""
        return max(bisect_right(self.held[p], weight, key=_weight) - 1, self.at_least(1, p))

    def _has_changed(self, p: int, by: int) -> None:
        self.load[p] += by
        for ranking in (self.lightest, self.heaviest, self.with_lightest_task):
            ranking.update(p)

    def _by_lightness(self, p: int) -> Key:
        return self.load[p], len(self.held[p]), self.problem.load[p]

    def _by_heaviness(self, p: int) -> Key | None:
        """The key of processors with at least two tasks; those that can give come first."""
        return (not self.can_give(p), -self.load[p]) if len(self.held[p]) > 1 else None

    def _by_lightest_task(self, p: int) -> Key | None:
        """The key of processors that can give, by their lightest task above 0."""
        return (self.held[p][self.at_least(1, p)][0],) if self.can_give(p) else None


def _without_giants(weights: Sequence[int], processors: int) -> tuple[int, int]:
    """The weight to share, and the number of processors that share it, without giants and their processors.

    A giant is a task that is heavier than the mean of the remaining tasks. It needs a processor of its own.
    """
    left = sum(weights)
    for weight in sorted(weights, reverse=True):
        if processors == 1 or weight * processors <= left:
            break
        left, processors = left - weight, processors - 1
    return left, processors
