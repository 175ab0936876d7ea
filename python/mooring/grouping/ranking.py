"""Ranks processors with changing weights, overall and at each location."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TypeAlias

from mooring.grouping.problem import NOWHERE

Key: TypeAlias = tuple[int, ...]


class Ranking:
    """A priority queue of processors, overall and for each location: smallest key first, then smallest number.

    `key(p)` is the present key of p, or None while p does not take part. After a change of the key, the caller calls
    `update(p)`. Outdated entries are dropped when they come first, so each step takes logarithmic time.
    """

    def __init__(self, location: Sequence[int], key: Callable[[int], Key | None]) -> None:
        self._location = location
        self._key = key
        self._everywhere: list[tuple[Key, int]] = []
        self._at: defaultdict[int, list[tuple[Key, int]]] = defaultdict(list)
        for p in range(len(location)):
            self.update(p)

    def update(self, p: int) -> None:
        """Rank p again; call this when its key may have changed."""
        key = self._key(p)
        if key is not None:
            heappush(self._everywhere, (key, p))
            if self._location[p] != NOWHERE:
                heappush(self._at[self._location[p]], (key, p))

    def first(self) -> int | None:
        """The processor with the smallest key; None when no processor takes part."""
        return self._first_of(self._everywhere)

    def first_at(self, location: int) -> int | None:
        """The processor with the smallest key at this location; None when none takes part, or for NOWHERE."""
        return self._first_of(self._at[location])

    def _first_of(self, heap: list[tuple[Key, int]]) -> int | None:
        while heap:
            key, p = heap[0]
            if key == self._key(p):
                return p
            heappop(heap)
        return None
