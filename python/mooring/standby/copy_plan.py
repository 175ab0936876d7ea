"""A plan in the making: which processor holds a copy of which task, and which other copies the rules allow.

Two rules are never broken:

- The active and the copies of a task are at different locations.
- They are in as many zones as possible: a copy shares a zone with the active or another copy only when the task has
  more copies than there are other zones. `may_share[t]` is the number of copies of task t that may share a zone.

A plan that keeps both rules can always be completed.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.standby.problem import Problem


class CopyPlan:
    """Which processor holds copies of which tasks. `wanted[t]` is how many copies task t gets.

    `at[t]` maps the location of each copy of task t to its processor. `held[p]` are the tasks of which processor p has
    a copy, in the order in which they were added; `load[p]` is the sum of their weights.
    """

    def __init__(self, problem: Problem, wanted: Sequence[int]) -> None:
        self.problem = problem
        self.wanted = wanted
        self.may_share = [max(0, copies - problem.zones_for(t)) for t, copies in enumerate(wanted)]
        self.at: list[dict[int, int]] = [{} for _ in problem.tasks]
        self.held: list[dict[int, None]] = [{} for _ in problem.processors]
        self.load = [0] * len(problem.processors)

    def put(self, task: int, p: int) -> None:
        """Give p a copy of the task. The caller has checked that `admits` is true."""
        self.at[task][self.problem.location[p]] = p
        self.held[p][task] = None
        self.load[p] += self.problem.weight[task]

    def take(self, task: int, p: int) -> None:
        """Take p's copy of the task away."""
        del self.at[task][self.problem.location[p]]
        del self.held[p][task]
        self.load[p] -= self.problem.weight[task]

    def move(self, task: int, p: int, q: int) -> None:
        """Move a copy of the task from p to q."""
        self.take(task, p)
        self.put(task, q)

    def lacks(self, task: int) -> int:
        """How many copies of the task have no processor yet."""
        return self.wanted[task] - len(self.at[task])

    def admits(self, task: int, p: int, leaving: int | None = None) -> bool:
        """Whether the rules let p hold one more copy of the task, or the copy that leaves the location `leaving`."""
        location = self.problem.location[p]
        return self.location_admits(task, location, leaving) and self.zone_admits(
            task, self.problem.zone[location], leaving
        )

    def location_admits(self, task: int, location: int, leaving: int | None = None) -> bool:
        """Whether neither the active nor another copy of the task is at this location."""
        return location != self.problem.active_location[task] and (location == leaving or location not in self.at[task])

    def zone_admits(self, task: int, zone: int, leaving: int | None = None) -> bool:
        """Whether one more copy of the task may be in this zone, given the zones of its other copies."""
        zone_of = self.problem.zone
        used = {self.problem.active_zone(task)}
        sharing = 0
        for location in self.at[task]:
            if location != leaving:
                sharing += zone_of[location] in used
                used.add(zone_of[location])
        return zone not in used or sharing < self.may_share[task]

    def is_at_home(self, task: int, p: int) -> bool:
        """Whether p had a copy of the task in the previous plan."""
        return p in self.problem.homes[task]

    def is_pinned(self, task: int, p: int) -> bool:
        """Whether an operator wants a copy of the task at the location of p. Such a copy does not move."""
        return self.problem.location[p] in self.problem.pinned[task]

    def vacant_homes(self, task: int) -> list[int]:
        """The processors that had a copy of the task in the previous plan and have none now."""
        return [home for home in self.problem.homes[task] if task not in self.held[home]]

    def copies_away_from_home(self, p: int) -> list[int]:
        """The tasks whose copy on p is new there, not pinned, and could go back to a vacant home."""
        return [
            task
            for task in self.held[p]
            if not self.is_at_home(task, p) and not self.is_pinned(task, p) and self.vacant_homes(task)
        ]
