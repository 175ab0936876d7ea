"""Chooses the processors when a grouper uses fewer than there are."""

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from mooring.grouping.problem import NOWHERE, Problem


def processors_to_use(problem: Problem, weights: Sequence[int], count: int) -> list[str]:
    """Up to `count` processors: those that hold the most tasks, those where most tasks were last, the smallest ids.

    Processors that hold the most tasks come first because this moves the fewest tasks: more tasks can stay there, for
    any size of the groups. With weights it is the most bytes. The choice by location is greedy, one processor at a
    time.
    """
    held = problem.held()
    weight_held = [sum(weights[t] for t in tasks) for tasks in held]
    holders = [p for p, tasks in enumerate(held) if tasks]
    chosen = sorted(holders, key=lambda p: (-weight_held[p], -len(held[p]), p))[:count]
    chosen += _by_location(problem, chosen, count - len(chosen))
    return [problem.processors[p] for p in sorted(chosen)]


def _by_location(problem: Problem, chosen: Sequence[int], count: int) -> list[int]:
    """`count` more processors. Each takes its share of the waiting tasks whose last location is the processor's."""
    share = -(-len(problem.tasks) // (len(chosen) + count)) if count else 0
    taken = set(chosen)
    waiting = Counter(wish for t, wish in enumerate(problem.wish) if wish != NOWHERE and problem.home[t] not in taken)
    for p in chosen:
        waiting[problem.location[p]] -= share
    remaining = [p for p in range(len(problem.processors)) if p not in taken]
    # The queue has one processor of each location. When a processor is chosen, the next of its location replaces it.
    at_location: dict[int, list[int]] = {}
    for p in reversed(remaining):
        at_location.setdefault(problem.location[p], []).append(p)
    queue = [(-max(waiting[location], 0), processors.pop(), location) for location, processors in at_location.items()]
    heapify(queue)
    found: list[int] = []
    while queue and len(found) < count:
        _, p, location = heappop(queue)
        found.append(p)
        waiting[location] -= share
        if at_location[location]:
            heappush(queue, (-max(waiting[location], 0), at_location[location].pop(), location))
    return found
