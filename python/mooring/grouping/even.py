"""Plans groups of equal size with the fewest moved tasks. This exact planner is used when all tasks count the same.

The goals, in order. A later goal never makes an earlier one worse.
1. Sizes are floor or ceil of tasks / processors.
2. The most tasks stay on the processor that held them.
3. The most tasks are on a processor at their last location.
4. The remainders (the slots beyond floor) are where the load of other queries is least, then on the smallest ids.

Goals 1 to 3 are met exactly: sizes and stays by counting, locations by a largest matching. Goal 4 is met exactly too:
the sets of remainders that allow the best result for goal 3 form a matroid, so taking the best candidate first is
right. One case of goal 4 is greedy. When more processors hold more than floor than there are remainders, some must give
a task up; they are chosen first among processors with strays.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mooring.grouping.matching import Matching, Node
from mooring.grouping.problem import NOWHERE, Problem


def spread_evenly(problem: Problem) -> list[int]:
    """The processor of each task, by the goals of this module. Tasks and processors are numbers, as in `Problem`."""
    draft, remainders_left = _first_sizes(problem)
    matching = Matching(*_leavers_and_places(draft))
    if remainders_left < 0:
        _shrink_crowds(draft, matching, -remainders_left)
    else:
        _hand_out_remainders(draft, matching, remainders_left)
    near, far = _choose_leavers(draft, matching)
    return _settle(draft, near, far)


@dataclass(frozen=True, slots=True)
class _Draft:
    """The plan while it is made. `size[p]` is the number of tasks for processor p; it changes by at most one.

    A crowd is a processor that held more than `floor` tasks. Its `strays` are its tasks with another last location.
    Strays leave first, because none of their state is on the crowd's disk. `with_choice` has the crowds of which some
    strays can stay: there is a choice which strays leave.
    """

    problem: Problem
    floor: int
    held: list[list[int]]
    size: list[int]
    strays: dict[int, list[int]]
    with_choice: set[int]

    def leaving(self, p: int) -> int:
        return max(0, len(self.held[p]) - self.size[p])

    def free(self, p: int) -> int:
        return max(0, self.size[p] - len(self.held[p]))


def _first_sizes(problem: Problem) -> tuple[_Draft, int]:
    """Give floor to all and one more to each crowd. Also returns the number of remainders left, negative if too few."""
    floor, remainders = divmod(len(problem.tasks), len(problem.processors))
    held = problem.held()
    strays = {
        p: [t for t in tasks if not _is_native(problem, t, p)] for p, tasks in enumerate(held) if len(tasks) > floor
    }
    with_choice = {p for p, tasks in strays.items() if len(held[p]) - (floor + 1) < len(tasks)}
    size = [floor + (p in strays) for p in range(len(held))]
    return _Draft(problem, floor, held, size, strays, with_choice), remainders - len(strays)


def _is_native(problem: Problem, task: int, p: int) -> bool:
    return problem.wish[task] == problem.location[p] != NOWHERE


def _leavers_and_places(draft: _Draft) -> tuple[dict[Node, int], dict[tuple[Node, Node], int]]:
    """The units and widths of the matching.

    A node `crowd` has the tasks that leave a crowd with a choice. A node `wish` has the tasks that must leave and were
    last at that location. A node `location` has the free slots at a location.
    """
    problem = draft.problem
    units: Counter[Node] = Counter()
    for p, location in enumerate(problem.location):
        if p not in draft.strays and location != NOWHERE:
            units["location", location] += draft.free(p)
    width = {(("wish", location), ("location", location)): len(problem.tasks) for _, location in units}
    for p in sorted(draft.with_choice):
        for wish, count in Counter(problem.wish[t] for t in draft.strays[p]).items():
            if ("location", wish) in units:
                width[("crowd", p), ("location", wish)] = count
    units.update({("crowd", p): draft.leaving(p) for p in draft.with_choice})
    units.update(("wish", problem.wish[task]) for task in _must_leave(draft))
    return units, width


def _must_leave(draft: _Draft) -> Iterator[int]:
    """Tasks without a processor, and tasks that leave a crowd without a choice."""
    yield from (task for task, home in enumerate(draft.problem.home) if home == NOWHERE)
    for p, strays in draft.strays.items():
        if p not in draft.with_choice:
            natives = [t for t in draft.held[p] if _is_native(draft.problem, t, p)]
            yield from strays
            yield from natives[len(natives) + len(strays) - draft.leaving(p) :]


def _shrink_crowds(draft: _Draft, matching: Matching, count: int) -> None:
    """Take the remainder from `count` crowds: first where this brings a task to its last location, then by load."""
    by_load = sorted(draft.strays, key=lambda p: (-draft.problem.load[p], -p))
    with_choice = [p for p in by_load if p in draft.with_choice]
    others = [p for p in by_load if p not in draft.with_choice]
    shrunk = _choose(with_choice, count, lambda p: matching.offer(("crowd", p)))
    shrunk += _choose(others, count - len(shrunk), lambda p: matching.offer(("wish", draft.problem.location[p])))
    for p in shrunk:
        draft.size[p] -= 1


def _hand_out_remainders(draft: _Draft, matching: Matching, count: int) -> None:
    """Give out the `count` remainders: first where one brings a task to its last location, then to the least loaded."""
    by_load = sorted(
        (p for p in range(len(draft.size)) if p not in draft.strays), key=lambda p: (draft.problem.load[p], p)
    )
    for p in _choose(by_load, count, lambda p: matching.offer(("location", draft.problem.location[p]))):
        draft.size[p] += 1


def _choose(candidates: Sequence[int], count: int, is_useful: Callable[[int], bool]) -> list[int]:
    """Up to `count` of the candidates: first the useful ones in order, then the others in order."""
    useful: list[int] = []
    for candidate in candidates:
        if len(useful) == count:
            return useful
        if is_useful(candidate):
            useful.append(candidate)
    taken = set(useful)
    return useful + [candidate for candidate in candidates if candidate not in taken][: count - len(useful)]


def _choose_leavers(draft: _Draft, matching: Matching) -> tuple[dict[int, list[int]], list[int]]:
    """The tasks that move: those that go to their last location, by location (near), and all others (far)."""
    near: defaultdict[int, list[int]] = defaultdict(list)
    far: list[int] = []
    for p in draft.with_choice:
        going = {location: units for (_, location), units in matching.partners(("crowd", p)).items()}
        undecided = draft.leaving(p) - sum(going.values())
        for task in draft.strays[p]:
            wish = draft.problem.wish[task]
            if going.get(wish):
                going[wish] -= 1
                near[wish].append(task)
            elif undecided:
                undecided -= 1
                far.append(task)
    waiting: defaultdict[int, list[int]] = defaultdict(list)
    for task in _must_leave(draft):
        waiting[draft.problem.wish[task]].append(task)
    for wish, tasks in waiting.items():
        matched = matching.partners(("wish", wish)).get(("location", wish), 0)
        near[wish] += tasks[:matched]
        far += tasks[matched:]
    return near, far


def _settle(draft: _Draft, near: dict[int, list[int]], far: list[int]) -> list[int]:
    """Put the moving tasks on free slots, in natural order; all other tasks stay."""
    owner = list(draft.problem.home)
    free = [draft.free(p) for p in range(len(draft.size))]
    at_location: defaultdict[int, list[int]] = defaultdict(list)
    for p, location in enumerate(draft.problem.location):
        at_location[location].append(p)
    for location, tasks in near.items():
        slots = (p for p in at_location[location] for _ in range(free[p]))
        for task, p in zip(sorted(tasks), slots, strict=False):
            owner[task] = p
            free[p] -= 1
    slots = (p for p in range(len(free)) for _ in range(free[p]))
    for task, p in zip(sorted(far), slots, strict=True):
        owner[task] = p
    return owner
