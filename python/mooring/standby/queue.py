"""The first of many whose order keeps changing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import TypeAlias

Key: TypeAlias = tuple[int, ...]


class Queue:
    """Numbers with keys that change, smallest key first. Whoever changes a key calls `update`."""

    def __init__(self, items: Iterable[int], key: Callable[[int], Key]) -> None:
        self._key = key
        self._heap: list[tuple[Key, int]] = []
        for item in items:
            self.update(item)

    def update(self, item: int) -> None:
        """Take note that the item's key may have changed."""
        heappush(self._heap, (self._key(item), item))

    def first(self, is_fit: Callable[[int], bool] = lambda _: True) -> int | None:
        """The fit item with the smallest key, None when none is fit."""
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
