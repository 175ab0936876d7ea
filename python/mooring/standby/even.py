"""Copies of equal count: exact evenness, by chains of moves.

As long as a processor can be relieved of one copy that is not pinned so that, down a chain of moves, another that has
at least two fewer gets one more, that is done. When there is no such chain, no plan that keeps the rules is more even:
the copies are a flow from tasks through zones and locations to processors, and a flow whose cost rises ever faster with
each processor's load is the cheapest exactly when no path lowers it. So the heaviest is as light as can be, and among
all such plans the lightest is as heavy as can be. Without rules in the way that is floor or ceil of copies /
processors.

Chains that cost no move are taken first: they take along copies that move anyway, or lead a copy to where one of its
task was. Then what moved without need is brought home. That keeps moves few, but not always the fewest: a pair of
copies that could both come home at the price of a third one's move is not looked for. The tests compare with all plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.standby.chain import Step, shortest_chain
from mooring.standby.copies import Copies


def even_out(copies: Copies) -> None:
    """Make the numbers of copies even, as far as the rules allow."""
    for only_free in (True, False):
        while _levels_moved(copies, only_free):
            pass


def bring_home(copies: Copies) -> None:
    """Let copies that moved return where the loads stay as even as they are."""
    while any([_returns(copies, task, p) for p in range(len(copies.load)) for task in copies.movers(p)]):
        pass


class _Gifts:
    """What each processor could give, for one search; whoever is named once is not named again.

    With `only_free`, only what costs no further move: copies that are not at home, to anybody, and any copy to a
    processor that had one of the same task.
    """

    def __init__(self, copies: Copies, only_free: bool) -> None:
        self._copies = copies
        self._only_free = only_free
        self._named: set[int] = set()
        question = copies.question
        self._left: dict[int, dict[int, list[int]]] = {}
        for p in sorted(range(len(copies.load)), key=copies.load.__getitem__):
            place = question.place[p]
            self._left.setdefault(question.zone[place], {}).setdefault(place, []).append(p)

    def __call__(self, p: int) -> Iterator[tuple[int, int]]:
        copies, place = self._copies, self._copies.question.place[p]
        for task in [task for task in copies.held[p] if not copies.is_pinned(task, p)]:
            if self._only_free and copies.is_at_home(task, p):
                for home in copies.question.homes[task]:
                    if home not in self._named and task not in copies.held[home] and copies.admits(task, home, place):
                        self._named.add(home)
                        yield task, home
                continue
            for zone, there in list(self._left.items()):
                if copies.zone_admits(task, zone, place):
                    for other in [other for other in there if copies.place_admits(task, other, place)]:
                        for q in there.pop(other):
                            yield task, q
                if not there:
                    del self._left[zone]


def _levels_moved(copies: Copies, only_free: bool) -> bool:
    """From the heaviest down, and each to the lightest: carry out every chain that evens out. Whether there was one."""
    load, moved = copies.load, False
    for high in range(max(load, default=0), 1, -1):
        if not _chain(copies, high, 0, high - 2, only_free):
            continue
        for low in range(min(load), high - 1):
            while _carry_out(copies, _chain(copies, high, low, low, only_free)):
                moved = True
    return moved


def _chain(copies: Copies, high: int, least: int, most: int, only_free: bool) -> list[Step]:
    """A chain from a processor with `high` copies to one with `least` to `most`."""
    load = copies.load
    starts = [p for p, carried in enumerate(load) if carried == high]
    if not starts or not any(least <= carried <= most for carried in load):
        return []
    return shortest_chain(starts, _Gifts(copies, only_free), lambda q: least <= load[q] <= most)


def _carry_out(copies: Copies, chain: list[Step]) -> bool:
    """From the end of the chain to its start, so that a place is free before it is taken. Whether it was carried out.

    It is not when there is none, nor when one step is in the way of another. That may be where only free moves are
    looked for: two copies of a task would go to two processors at one location, and the short way, by which the first
    goes to where the second would, is not free.
    """
    done: list[Step] = []
    for task, p, q in chain:
        if not copies.admits(task, q, leaving=copies.question.place[p]):
            for moved, was_on, is_on in reversed(done):
                copies.move(moved, is_on, was_on)
            return False
        copies.move(task, p, q)
        done.append((task, p, q))
    return bool(done)


def _returns(copies: Copies, task: int, p: int) -> bool:
    """Take the copy home if another can leave there, down a chain of free moves, for where there is room."""
    load, place = copies.load, copies.question.place[p]
    if task not in copies.held[p]:
        return False
    for home in copies.vacant_homes(task):
        if not copies.admits(task, home, place):
            continue
        if load[home] < load[p]:
            copies.move(task, p, home)
            return True
        copies.move(task, p, home)
        if _carry_out(copies, shortest_chain([home], _Gifts(copies, only_free=True), lambda q: load[q] <= load[p])):
            return True
        copies.move(task, home, p)
    return False
