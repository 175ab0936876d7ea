"""Chains of moves: one gives to the next, who gives to the next. The tool that makes evenness exact."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

Step = tuple[int, int, int]
"""What moves, from which processor, to which."""


def shortest_chain(
    starts: Sequence[int],
    gifts: Callable[[int], Iterable[tuple[int, int]]],
    is_end: Callable[[int], bool],
) -> list[Step]:
    """The shortest chain from a start to an end, empty when there is none.

    `gifts(p)` lists what p could give, and to whom: (what, q). It may leave out any q that it has named before.

    The steps of a shortest chain do not disturb each other: if two of them were about the same thing, and the first
    stood in the way of the second, then one step could do what both do, and the chain would not be shortest.
    """
    came_by: dict[int, Step] = {}
    reached = set(starts)
    queue = deque(starts)
    while queue:
        p = queue.popleft()
        for what, q in gifts(p):
            if q in reached:
                continue
            reached.add(q)
            came_by[q] = what, p, q
            if is_end(q):
                return _back_to_the_start(q, came_by)
            queue.append(q)
    return []


def _back_to_the_start(end: int, came_by: dict[int, Step]) -> list[Step]:
    chain = []
    while end in came_by:
        chain.append(came_by[end])
        end = came_by[end][1]
    return chain
