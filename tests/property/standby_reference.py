"""The best standby plan and the best take-over by trying everything: slow, short, and sharing nothing with Mooring."""

from collections import Counter
from itertools import combinations, product

from mooring.model import named_location
from tests.property.standby_fleets import StandbyFleet


def location(fleet: StandbyFleet, processor: str) -> str | None:
    return named_location(fleet.locations[processor])


def zone(fleet: StandbyFleet, processor: str) -> str:
    return (fleet.zones or {}).get(location(fleet, processor), "")


def able(fleet: StandbyFleet) -> list[str]:
    """The processors that may hold copies."""
    return [p for p in fleet.locations if location(fleet, p) and (fleet.may_hold is None or p in fleet.may_hold)]


def choices(fleet: StandbyFleet, task: str) -> list[tuple[str, ...]]:
    """All sets of holders of a task: as many as can be at different locations, of those in the most zones."""
    active = fleet.active[task]
    if location(fleet, active) is None:
        return [()]
    apart = [
        chosen
        for count in range(fleet.factor)
        for chosen in combinations(able(fleet), count)
        if len({location(fleet, p) for p in (active, *chosen)}) == count + 1
    ]
    full = [chosen for chosen in apart if len(chosen) == max(map(len, apart))]
    zones = [len({zone(fleet, p) for p in (active, *chosen)}) for chosen in full]
    return [chosen for chosen, count in zip(full, zones, strict=True) if count == max(zones)]


def best(fleet: StandbyFleet) -> tuple[int, int]:
    """The least sum of squares of loads, and the fewest copies at new processors among plans that reach it."""
    processors, homes = able(fleet), fleet.kept_homes()
    fewest_moves = {(0,) * len(processors): 0}
    for task in fleet.active:
        reached: dict[tuple[int, ...], int] = {}
        for chosen in choices(fleet, task):
            moves = sum(p not in homes.get(task, ()) for p in chosen)
            for loads, before in fewest_moves.items():
                after = tuple(load + (p in chosen) for load, p in zip(loads, processors, strict=True))
                reached[after] = min(reached.get(after, before + moves), before + moves)
        fewest_moves = reached
    return min((sum(load * load for load in loads), moves) for loads, moves in fewest_moves.items())


def achieved(fleet: StandbyFleet, holders: dict[str, list[str]]) -> tuple[int, int]:
    """The same two figures of a plan."""
    homes = fleet.kept_homes()
    loads = Counter(p for held in holders.values() for p in held)
    moves = sum(p not in homes.get(task, ()) for task, held in holders.items() for p in held)
    return sum(load * load for load in loads.values()), moves


def best_failover(living: dict[str, list[str]], load: dict[str, int]) -> list[int]:
    """The loads of the survivors, heaviest first, when each task goes to one of its living copies; the most even."""
    tasks = [task for task in living if living[task]]
    found = []
    for takers in product(*(living[task] for task in tasks)):
        taken = Counter(takers)
        found.append(sorted((load[p] + taken[p] for p in load), reverse=True))
    return min(found)
