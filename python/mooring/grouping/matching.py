"""Largest matching between two kinds of nodes that each take part several times, grown one unit at a time.

Used to bring tasks to their last location: the left nodes are groups of tasks, the right nodes are locations, and a
node's units are the tasks that have to go, or the free places that a location has.
"""

from collections import deque
from collections.abc import Mapping
from typing import TypeAlias

Node: TypeAlias = tuple[str, int]
"""A kind and a number. Kinds keep the two sides apart."""


class Matching:
    """A matching of `units[node]` units of each node, at most `width[left, right]` of them between two nodes.

    It is the largest there is from the start, and stays the largest after each `offer` that is taken up. Exact:
    augmenting paths. Offers must all be made on the same side: what was found hopeless before is not tried again.
    """

    def __init__(self, units: Mapping[Node, int], width: Mapping[tuple[Node, Node], int]) -> None:
        self._spare = dict(units)
        self._room: dict[Node, dict[Node, int]] = {}
        self._used: dict[Node, dict[Node, int]] = {}
        self._hopeless: set[Node] = set()
        for (left, right), room in width.items():
            self._room.setdefault(left, {})[right] = room
            self._room.setdefault(right, {})[left] = room
        lefts = list(dict.fromkeys(left for left, _ in width))
        for left in lefts:
            self._match_directly(left)
        for left in lefts:
            while self._spare.get(left, 0) and self._grow_from(left):
                pass

    def offer(self, node: Node) -> bool:
        """One more unit of `node`: True when it made the matching one larger; otherwise it is taken back."""
        self._spare[node] = self._spare.get(node, 0) + 1
        if self._grow_from(node):
            return True
        self._spare[node] -= 1
        return False

    def partners(self, node: Node) -> Mapping[Node, int]:
        """With whom the node's units are matched, and how many of them."""
        return self._used.get(node, {})

    def _match_directly(self, left: Node) -> None:
        for right in list(self._room[left]):
            units = min(self._spare.get(left, 0), self._spare.get(right, 0), self._room[left][right])
            if units:
                self._spare[left] -= units
                self._spare[right] -= units
                _shift(self._room, self._used, left, right, units)

    def _grow_from(self, start: Node) -> bool:
        """Look for a partner for a spare unit of `start`, breadth first; others may have to find new partners for it.

        When there is none, none of the nodes on the way has one, now or later: offers on this side only make places
        scarcer.
        """
        if start in self._hopeless:
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
                if self._spare.get(partner, 0):
                    self._rematch(start, node, partner, came_from)
                    return True
                for other in self._used.get(partner, {}):
                    if other not in reached and other not in self._hopeless:
                        reached.add(other)
                        came_from[other] = (node, partner)
                        queue.append(other)
        self._hopeless |= reached
        return False

    def _rematch(self, start: Node, node: Node, partner: Node, came_from: Mapping[Node, tuple[Node, Node]]) -> None:
        self._spare[start] -= 1
        self._spare[partner] -= 1
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
