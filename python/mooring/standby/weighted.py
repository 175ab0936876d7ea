"""Copies of different weight: a plan that is even enough, by moves of one copy at a time.

A processor is too heavy when its load is above the mean plus the heaviest copy. It is too light when its load is below
three quarters of the mean. Only such processors change, so a plan stays as it is while weights grow a little.

A copy of weight w moves only to a processor that is lighter by 2 w at least. So each move makes the sum of the squares
of the loads smaller, and the algorithm ends. Where the rules of `mooring.standby.copy_plan` allow it, no processor
stays too heavy: some other processor is then below the mean and can take any of its copies. All else is best effort.
"""

from __future__ import annotations

from mooring.standby.copy_plan import CopyPlan


def even_out_weights(plan: CopyPlan) -> None:
    """Move copies from processors that are too heavy, and to processors that are too light."""
    while _relieve_and_fill(plan):
        pass


def _relieve_and_fill(plan: CopyPlan) -> bool:
    """One pass over all processors. Whether a copy has moved."""
    load, has_moved = plan.load, False
    mean = sum(load) // max(1, len(load))
    heaviest = max((weight for t, weight in enumerate(plan.problem.weight) if plan.at[t]), default=0)
    for p in sorted(range(len(load)), key=lambda p: (-load[p], p)):
        while load[p] > mean + heaviest and _give_one(plan, p):
            has_moved = True
    for q in sorted(range(len(load)), key=lambda q: (load[q], q)):
        while load[q] * 4 < mean * 3 and _receive_one(plan, q):
            has_moved = True
    return has_moved


def _give_one(plan: CopyPlan, p: int) -> bool:
    """Move one copy of p to the lightest processor that may have it. Whether there was one."""
    weight = plan.problem.weight
    by_load = sorted(range(len(plan.load)), key=lambda q: (plan.load[q], q))
    for task in _movable(plan, p):
        for q in by_load:
            if plan.load[p] - plan.load[q] < 2 * weight[task]:
                break
            if plan.admits(task, q, plan.problem.location[p]):
                plan.move(task, p, q)
                return True
    return False


def _receive_one(plan: CopyPlan, q: int) -> bool:
    """Move to q the heaviest copy that it may have from the heaviest processor that can give one. Whether it could."""
    weight = plan.problem.weight
    for p in sorted(range(len(plan.load)), key=lambda p: (-plan.load[p], p)):
        if plan.load[p] - plan.load[q] < 2:
            return False
        for task in _movable(plan, p):
            if plan.load[p] - plan.load[q] >= 2 * weight[task] and plan.admits(task, q, plan.problem.location[p]):
                plan.move(task, p, q)
                return True
    return False


def _movable(plan: CopyPlan, p: int) -> list[int]:
    """The copies of p that are not pinned: those that are new on p first, then the heaviest."""
    weight = plan.problem.weight
    return sorted(
        (task for task in plan.held[p] if not plan.is_pinned(task, p)),
        key=lambda task: (plan.is_at_home(task, p), -weight[task], task),
    )
