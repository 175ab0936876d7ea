"""The cheapest even plan, found by another road: successive shortest paths in a flow network, for small fleets only."""

from collections.abc import Sequence

A_MOVE, A_STRANGER, MUST = 10**6, 10**3, -(10**9)


def cheapest(
    home: Sequence[int | None], wish: Sequence[str | None], place: Sequence[str], load: Sequence[int]
) -> tuple[int, int, int]:
    """(moved tasks, tasks not at their last location, load under the remainders) of the best even plan, in that order.

    `home[t]` is the processor that held task t or None, `wish[t]` its last location or None.
    """
    tasks, processors = len(home), len(place)
    floor = tasks // processors
    source, sink = 0, 1 + tasks + processors
    edges: list[list[int]] = []  # from, to, capacity, cost; the edge back is the next one

    def connect(a: int, b: int, capacity: int, cost: int) -> None:
        edges.extend(([a, b, capacity, cost], [b, a, 0, -cost]))

    for t in range(tasks):
        connect(source, 1 + t, 1, 0)
        for p in range(processors):
            connect(1 + t, 1 + tasks + p, 1, A_MOVE * (home[t] != p) + A_STRANGER * (wish[t] != place[p]))
    for p in range(processors):
        connect(1 + tasks + p, sink, floor, MUST)
        connect(1 + tasks + p, sink, 1, load[p])
    total = sum(_push_one(edges, source, sink) for _ in range(tasks)) - MUST * floor * processors
    return total // A_MOVE, total % A_MOVE // A_STRANGER, total % A_STRANGER


def _push_one(edges: list[list[int]], source: int, sink: int) -> int:
    """Send one unit along the cheapest path, and return its cost (Bellman and Ford)."""
    cost = {source: 0}
    by: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for i, (a, b, capacity, price) in enumerate(edges):
            if capacity and a in cost and cost[a] + price < cost.get(b, 10**18):
                cost[b], by[b], changed = cost[a] + price, i, True
    node = sink
    while node != source:
        edges[by[node]][2] -= 1
        edges[by[node] ^ 1][2] += 1
        node = edges[by[node]][0]
    return cost[sink]
