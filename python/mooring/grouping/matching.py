"""A largest matching between two kinds of nodes with several units each, which can grow by one unit at a time.

It brings tasks to their last location. The left nodes are groups of tasks; their units are the tasks that must move.
The right nodes are locations; their units are free slots.
"""

from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

Node: TypeAlias = tuple[str, int]
"""A kind and a number. Kinds keep the two sides apart."""


class Matching:
    """A matching of `units[node]` units of each node, at most `width[left, right]` of them between two nodes.

    It is a largest matching from the start, and after each `offer` that returned True. The method is exact: augmenting
    paths. All offers must be on the same side, because nodes without a partner are not tried again.
    """

    def __init__(self, units: Mapping[Node, int], width: Mapping[tuple[Node, Node], int]) -> None:
        self._unmatched = dict(units)
        self._room: dict[Node, dict[Node, int]] = {}
        self._used: dict[Node, dict[Node, int]] = {}
        self._without_partner: set[Node] = set()
        for (left, right), room in width.items():
            self._room.setdefault(left, {})[right] = room
            self._room.setdefault(right, {})[left] = room
        lefts = list(dict.fromkeys(left for left, _ in width))
        for left in lefts:
            self._match_directly(left)
        for left in lefts:
            while self._unmatched.get(left, 0) and self._grow_from(left):
                pass

    def offer(self, node: Node) -> bool:
        """Add one unit of `node` if that makes the matching larger by one. Returns whether it was added."""
        self._unmatched[node] = self._unmatched.get(node, 0) + 1
        if self._grow_from(node):
            return True
        self._unmatched[node] -= 1
        return False

    def partners(self, node: Node) -> Mapping[Node, int]:
        """The nodes that this node's units are matched with, each with the number of units."""
        return self._used.get(node, {})

    def _match_directly(self, left: Node) -> None:
        for right in list(self._room[left]):
            units = min(self._unmatched.get(left, 0), self._unmatched.get(right, 0), self._room[left][right])
            if units:
                self._unmatched[left] -= units
                self._unmatched[right] -= units
                _shift(self._room, self._used, left, right, units)

    def _grow_from(self, start: Node) -> bool:
        """Look for a partner for an unmatched unit of `start`, breadth first. Other nodes may get new partners for it.

        When there is none, no node that was reached has a partner, also later: offers on this side only use up slots.
        """
        if start in self._without_partner:
            return False
        came_from: dict[Node, tuple[Node, Node]] = {}
        asked: set[Node] = set()
        reached = {start}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for partner in self._room.get(node, {}):
                if partner in asked:
                    continue
                asked.add(partner)
                if self._unmatched.get(partner, 0):
                    self._rematch(start, node, partner, came_from)
                    return True
                for other in self._used.get(partner, {}):
                    if other not in reached and other not in self._without_partner:
                        reached.add(other)
                        came_from[other] = (node, partner)
                        queue.append(other)
        self._without_partner |= reached
        return False

    def _rematch(self, start: Node, node: Node, partner: Node, came_from: Mapping[Node, tuple[Node, Node]]) -> None:
        self._unmatched[start] -= 1
        self._unmatched[partner] -= 1
        _shift(self._room, self._used, node, partner, 1)
        while node != start:
            winner, given_up = came_from[node]
            _shift(self._used, self._room, node, given_up, 1)
            _shift(self._room, self._used, winner, given_up, 1)
            node = winner


def _shift(
    source: dict[Node, dict[Node, int]], target: dict[Node, dict[Node, int]], a: Node, b: Node, units: int
) -> None:
    """Move units of the edge between a and b from one table to the other; entries at zero vanish."""
    for x, y in ((a, b), (b, a)):
        left = source[x][y] - units
        if left:
            source[x][y] = left
        else:
            del source[x][y]
        row = target.setdefault(x, {})
        row[y] = row.get(y, 0) + units
