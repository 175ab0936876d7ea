"""Plans groups of equal weight; used when the bytes of tasks are known.

Promises:
1. The weight of each processor differs from the mean by less than the heaviest task, and each holds a task. With equal
   weights that is floor or ceil.
2. No processor stays below three quarters of the fair share while one above the fair share holds a task that fits. The
   fair share is the mean without giants; a giant is a heavy task that has a processor of its own.

A plan that keeps both promises is not changed, even if weights have changed since. With no more tasks than processors,
each task has a processor of its own, and `grouping.even` plans that exactly.

The choice of tasks to move is greedy. A processor that is too heavy gives away just enough. A task without a processor
goes to its last location, up to the fair share there, if enough tasks remain for processors that are too light. Other
tasks go to the lightest processor. A processor that is still too light, such as a new one, gets tasks up to the fair
share from the heaviest processors, first from those at its own location.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mooring.grouping.even import spread_evenly
from mooring.grouping.problem import NOWHERE, Problem
from mooring.grouping.scales import Scales


def weigh(problem: Problem, weights: Mapping[str, int]) -> list[int]:
    """The weight of each task. An unknown weight is the mean of the known ones, rounded down; 0 when none is known."""
    known = [weights[task.task_name] for task in problem.tasks if task.task_name in weights]
    mean = sum(known) // len(known) if known else 0
    return [weights.get(task.task_name, mean) for task in problem.tasks]


def spread_by_weight(problem: Problem, weights: Sequence[int]) -> list[int]:
    """The processor of each task. At least one weight must be above 0."""
    if len(problem.tasks) <= len(problem.processors):
        return spread_evenly(_with_the_heaviest_kept(problem, weights))
    scales = Scales(problem, weights)
    homeless = [t for t, home in enumerate(problem.home) if home == NOWHERE]
    _place(scales, homeless + _lighten(scales))
    _fill_up(scales)
    return scales.owner


def _with_the_heaviest_kept(problem: Problem, weights: Sequence[int]) -> Problem:
    """The problem with one task for each processor: the heaviest one stays, which moves the fewest bytes."""
    staying = {min(tasks, key=lambda t: (-weights[t], t)) for tasks in problem.held() if tasks}
    return replace(problem, home=[home if t in staying else NOWHERE for t, home in enumerate(problem.home)])


def _lighten(scales: Scales) -> list[int]:
    """Take tasks from processors that are too heavy, and return them.

    A processor gives the lightest task that is enough. While no single task is, the processor gives its heaviest.
    """
    taken = []
    for p in range(len(scales.held)):
        while (excess := scales.load[p] - scales.ceiling) >= 0:
            taken.append(scales.take(p, scales.at_least(excess + 1, p)))
    return taken


def _place(scales: Scales, tasks: Sequence[int]) -> None:
    """Put these tasks on processors, heaviest first: at their last location up to the fair share, else elsewhere.

    Enough weight is kept back for processors that are too light. Otherwise other tasks would have to move there.
    """
    left = sum(scales.weight[t] for t in tasks)
    shortage = sum(scales.shortage(load) for load in scales.load)
    rest = []
    for task in sorted(tasks, key=lambda t: (-scales.weight[t], t)):
        weight, near = scales.weight[task], scales.lightest.first_at(scales.problem.wish[task])
        if near is not None and scales.load[near] + weight <= scales.fair:
            filled = scales.shortage(scales.load[near]) - scales.shortage(scales.load[near] + weight)
            if left - weight >= shortage - filled:
                left, shortage = left - weight, shortage - filled
                scales.put(task, near)
                continue
        rest.append(task)
    for task in rest:
        scales.put(task, _near_or_lightest(scales, task))


def _near_or_lightest(scales: Scales, task: int) -> int:
    """The lightest processor at the task's last location; the lightest of all if that is full or one is too light."""
    lightest, near = scales.lightest.first(), scales.lightest.first_at(scales.problem.wish[task])
    assert lightest is not None
    if near is None or scales.load[near] >= scales.fair:
        return lightest
    return near if scales.shortage(scales.load[near]) or not scales.shortage(scales.load[lightest]) else lightest


def _fill_up(scales: Scales) -> None:
    """Fill up processors that are too light, also those that become so by giving a task to an empty processor."""
    too_light = deque(
        sorted((p for p, load in enumerate(scales.load) if scales.shortage(load)), key=scales.load.__getitem__)
    )
    while too_light:
        p = too_light.popleft()
        while (found := _task_to_give(scales, p)) is not None:
            giver, position = found
            scales.put(scales.take(giver, position), p)
            if scales.shortage(scales.load[giver]):
                too_light.append(giver)


def _task_to_give(scales: Scales, p: int) -> tuple[int, int] | None:
    """The processor that gives p a task, and the task's position there; None when there is none.

    The task must fit into p's fair share, and is at most the giver's excess if possible.
    """
    room = scales.fair - scales.load[p]
    heaviest = scales.heaviest.first()
    for giver in (scales.heaviest.first_at(scales.problem.location[p]), heaviest):
        if giver is not None and scales.can_give(giver):
            position = scales.at_most(min(room, scales.load[giver] - scales.fair), giver)
            if scales.held[giver][position][0] <= room:
                return giver, position
    giver = scales.with_lightest_task.first() if scales.shortage(scales.load[p]) else None
    if giver is not None and scales.held[giver][position := scales.at_least(1, giver)][0] <= room:
        return giver, position
    return (heaviest, 0) if heaviest is not None and not scales.held[p] else None
