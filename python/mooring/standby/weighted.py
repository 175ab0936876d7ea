"""Copies of different weight: a plan that is even enough, by single moves.

A processor is too heavy above the mean and the heaviest copy, and too light below three quarters of the mean. Only such
processors are looked at, so that a plan is left alone while weights drift. A copy of weight w moves only to a processor
that is lighter by 2 w at least, so no plan comes back. Where no rule stands in the way, nobody stays too heavy: as long
as one is, another is below the mean, and takes any of its copies. The rest is best effort.
"""

from __future__ import annotations

from mooring.standby.copies import Copies


def even_out_weights(copies: Copies) -> None:
    """Relieve those that are too heavy, fill those that are too light.

    Ends, because each move makes the sum of the squares of the loads smaller.
    """
    while _relieve_and_fill(copies):
        pass


def _relieve_and_fill(copies: Copies) -> bool:
    load, moved = copies.load, False
    mean = sum(load) // max(1, len(load))
    heaviest = max((weight for t, weight in enumerate(copies.question.weight) if copies.at[t]), default=0)
    for p in sorted(range(len(load)), key=lambda p: (-load[p], p)):
        while load[p] > mean + heaviest and _gives_away(copies, p):
            moved = True
    for q in sorted(range(len(load)), key=lambda q: (load[q], q)):
        while load[q] * 4 < mean * 3 and _receives(copies, q):
            moved = True
    return moved


def _gives_away(copies: Copies, p: int) -> bool:
    """Move one copy of p, one that is not at home or else the heaviest, to the lightest that may have it."""
    weight = copies.question.weight
    by_load = sorted(range(len(copies.load)), key=lambda q: (copies.load[q], q))
    for task in _what_may_leave(copies, p):
        for q in by_load:
            if copies.load[p] - copies.load[q] < 2 * weight[task]:
                break
            if copies.admits(task, q, copies.question.place[p]):
                copies.move(task, p, q)
                return True
    return False


def _receives(copies: Copies, q: int) -> bool:
    """Move the heaviest copy that q may have from the heaviest processor that can spare one."""
    weight = copies.question.weight
    for p in sorted(range(len(copies.load)), key=lambda p: (-copies.load[p], p)):
        if copies.load[p] - copies.load[q] < 2:
            return False
        for task in _what_may_leave(copies, p):
            if copies.load[p] - copies.load[q] >= 2 * weight[task] and copies.admits(task, q, copies.question.place[p]):
                copies.move(task, p, q)
                return True
    return False


def _what_may_leave(copies: Copies, p: int) -> list[int]:
    """The copies of p that are not pinned: those that are not at home first, then the heaviest."""
    weight = copies.question.weight
    return sorted(
        (task for task in copies.held[p] if not copies.is_pinned(task, p)),
        key=lambda task: (copies.is_at_home(task, p), -weight[task], task),
    )
