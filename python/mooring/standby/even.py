"""Copies of equal weight: exact evenness, by chains of transfers.

The algorithm looks for a chain from a processor to one that has at least two copies fewer, and carries it out. It ends
when there is no such chain. Then no plan that keeps the rules is more even: the plan is a flow from tasks through zones
and locations to processors, whose cost grows faster than the loads, and such a flow has the least cost exactly when no
chain lowers it. So the highest load is as low as possible, and among such plans the lowest load is as high as possible.
Where no rule is in the way, each processor has floor or ceil of copies / processors. Pinned copies never move.

Free chains are taken first: they move only copies that are new on their processor, or move copies back to a home.
At the end, copies that moved without need are brought home. That keeps the number of moves low, but not always the
lowest: two copies that could both come home at the price of a third one's move are not found. The tests compare the
result with all plans.
"""

from __future__ import annotations

from collections.abc import Iterator

from mooring.standby.chain import Transfer, shortest_chain
from mooring.standby.copy_plan import CopyPlan


def even_out(plan: CopyPlan) -> None:
    """Make the numbers of copies as even as the rules allow."""
    for only_free in (True, False):
        while _even_out_once(plan, only_free):
            pass


def bring_home(plan: CopyPlan) -> None:
    """Move copies back to processors that had them, where the loads stay as even as they are."""
    while any(
        [_bring_one_home(plan, task, p) for p in range(len(plan.load)) for task in plan.copies_away_from_home(p)]
    ):
        pass


class _PossibleTransfers:
    """What each processor can give, and to which processor, during one search for a chain.

    Each processor is at most once the destination of a transfer. With `only_free`, only transfers that cost no further
    move are possible: a copy that is not at home may go to any processor, and any copy may go to a processor that had a
    copy of the same task.
    """

    def __init__(self, plan: CopyPlan, only_free: bool) -> None:
        self._plan = plan
        self._only_free = only_free
        self._named: set[int] = set()
        problem = plan.problem
        self._left: dict[int, dict[int, list[int]]] = {}  # zone to location to the processors not named yet
        for p in sorted(range(len(plan.load)), key=plan.load.__getitem__):
            location = problem.location[p]
            self._left.setdefault(problem.zone[location], {}).setdefault(location, []).append(p)

    def __call__(self, p: int) -> Iterator[tuple[int, int]]:
        plan, location = self._plan, self._plan.problem.location[p]
        for task in [task for task in plan.held[p] if not plan.is_pinned(task, p)]:
            if self._only_free and plan.is_at_home(task, p):
                for home in plan.problem.homes[task]:
                    if home not in self._named and task not in plan.held[home] and plan.admits(task, home, location):
                        self._named.add(home)
                        yield task, home
                continue
            for zone, locations in list(self._left.items()):
                if plan.zone_admits(task, zone, location):
                    for other in [other for other in locations if plan.location_admits(task, other, location)]:
                        for q in locations.pop(other):
                            yield task, q
                if not locations:
                    del self._left[zone]


def _even_out_once(plan: CopyPlan, only_free: bool) -> bool:
    """Carry out all chains that even out, from the highest loads down, to the lowest loads. Whether there was one."""
    load, has_moved = plan.load, False
    for high in range(max(load, default=0), 1, -1):
        if not _chain(plan, high, 0, high - 2, only_free):
            continue
        for low in range(min(load), high - 1):
            while _carry_out(plan, _chain(plan, high, low, low, only_free)):
                has_moved = True
    return has_moved


def _chain(plan: CopyPlan, high: int, least: int, most: int, only_free: bool) -> list[Transfer]:
    """The shortest chain from a processor with `high` copies to a processor with `least` to `most` copies."""
    load = plan.load
    starts = [p for p, carried in enumerate(load) if carried == high]
    if not starts or not any(least <= carried <= most for carried in load):
        return []
    return shortest_chain(starts, _PossibleTransfers(plan, only_free), lambda q: least <= load[q] <= most)


def _carry_out(plan: CopyPlan, chain: list[Transfer]) -> bool:
    """Carry out the chain from its end to its start, so that a location is free before it is used.

    Returns whether the chain was carried out. Nothing changes when the chain is empty, or when one transfer is in the
    way of another. Only in free chains can a transfer be in the way: two copies of a task would go to two processors at
    one location, and the shorter chain, which avoids that, is not free.
    """
    done: list[Transfer] = []
    for task, p, q in chain:
        if not plan.admits(task, q, leaving=plan.problem.location[p]):
            for moved, source, destination in reversed(done):
                plan.move(moved, destination, source)
            return False
        plan.move(task, p, q)
        done.append((task, p, q))
    return bool(done)


def _bring_one_home(plan: CopyPlan, task: int, p: int) -> bool:
    """Move p's copy of the task to a vacant home, if the loads stay as even. Whether it was moved.

    A home with at least as many copies as p must give another copy away, down a free chain.
    """
    load, location = plan.load, plan.problem.location[p]
    if task not in plan.held[p]:
        return False
    for home in plan.vacant_homes(task):
        if not plan.admits(task, home, location):
            continue
        if load[home] < load[p]:
            plan.move(task, p, home)
            return True
        plan.move(task, p, home)
        if _carry_out(
            plan, shortest_chain([home], _PossibleTransfers(plan, only_free=True), lambda q: load[q] <= load[p])
        ):
            return True
        plan.move(task, home, p)
    return False
