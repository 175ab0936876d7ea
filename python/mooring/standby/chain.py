"""Chains of transfers: p gives something to q, q gives something to r, and so on. With chains, evenness is exact.

Example: processor 1 has 3 copies, processor 2 has 2, processor 3 has 1. No copy of 1 may go to 3. But a copy of 1 may
go to 2, and one of 2 may go to 3. The chain (1 to 2, 2 to 3) leaves each with 2 copies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

Transfer = tuple[int, int, int]
"""The thing that moves, the processor that gives it, the processor that receives it."""


def shortest_chain(
    starts: Sequence[int],
    possible_transfers: Callable[[int], Iterable[tuple[int, int]]],
    is_end: Callable[[int], bool],
) -> list[Transfer]:
    """The shortest chain from a start to an end, last transfer first. Empty when there is none.

    `possible_transfers(p)` lists what p can give, and to which processor: (thing, q). It may leave out a q that it
    has named before, because the search visits each q once.

    The transfers of a shortest chain do not disturb each other. Suppose that two of them move the same thing, and that
    the first stands in the way of the second. Then one transfer could do the work of both, and the chain would not be
    the shortest.
    """
    reached_by: dict[int, Transfer] = {}
    reached = set(starts)
    queue = deque(starts)
    while queue:
        p = queue.popleft()
        for thing, q in possible_transfers(p):
            if q in reached:
                continue
            reached.add(q)
            reached_by[q] = thing, p, q
            if is_end(q):
                return _chain_to(q, reached_by)
            queue.append(q)
    return []


def _chain_to(end: int, reached_by: dict[int, Transfer]) -> list[Transfer]:
    """The transfers from the end back to the start."""
    chain = []
    while end in reached_by:
        chain.append(reached_by[end])
        end = reached_by[end][1]
    return chain
