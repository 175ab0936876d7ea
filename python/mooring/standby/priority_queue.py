"""A priority queue of numbers whose keys change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TypeAlias

Key: TypeAlias = tuple[int, ...]


class PriorityQueue:
    """Numbers with keys that change, smallest key first.

    The caller calls `update` for each number whose key has changed. Outdated entries are dropped when they come first.
    """

    def __init__(self, items: Iterable[int], key: Callable[[int], Key]) -> None:
        self._key = key
        self._heap: list[tuple[Key, int]] = []
        for item in items:
            self.update(item)

    def update(self, item: int) -> None:
        """Add an entry for the item with its present key."""
        heappush(self._heap, (self._key(item), item))

    def first(self, is_fit: Callable[[int], bool] = lambda _: True) -> int | None:
        """The item with the smallest key among those for which `is_fit` is true. None when there is none."""
        unfit, found = [], None
        while self._heap and found is None:
            key, item = self._heap[0]
            if key != self._key(item):
                heappop(self._heap)
            elif is_fit(item):
                found = item
            else:
                unfit.append(heappop(self._heap))
        for entry in dict.fromkeys(unfit):
            heappush(self._heap, entry)
        return found
