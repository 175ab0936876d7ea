"""The plan in the making: who holds a copy of what, and who else may.

The two rules that no plan breaks are here. A task's active and its copies are at different locations. And as many
zones as there can be: a copy shares a zone with its active, or with another copy, only when the task has more copies
than there are other zones. `spare[t]` is how many more, so the rule for task t is: at most so many copies share a zone.
A plan that keeps both rules can always be completed.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.standby.question import Question


class Copies:
    """Who holds copies of which task. `room[t]` is how many copies task t gets.

    `at[t]` maps each location of a copy of task t to its processor. `held[p]` are the tasks of which p has a copy, in
    the order in which they came; `load[p]` is their weight.
    """

    def __init__(self, question: Question, room: Sequence[int]) -> None:
        self.question = question
        self.room = room
        self.spare = [max(0, copies - question.zones_for(t)) for t, copies in enumerate(room)]
        self.at: list[dict[int, int]] = [{} for _ in question.tasks]
        self.held: list[dict[int, None]] = [{} for _ in question.processors]
        self.load = [0] * len(question.processors)

    def put(self, task: int, p: int) -> None:
        """Give p a copy of the task; the caller has seen that it may hold one."""
        self.at[task][self.question.place[p]] = p
        self.held[p][task] = None
        self.load[p] += self.question.weight[task]

    def take(self, task: int, p: int) -> None:
        """Take p's copy of the task away."""
        del self.at[task][self.question.place[p]]
        del self.held[p][task]
        self.load[p] -= self.question.weight[task]

    def move(self, task: int, p: int, q: int) -> None:
        """Move a copy of the task from p to q."""
        self.take(task, p)
        self.put(task, q)

    def lacks(self, task: int) -> int:
        """How many copies of the task have no processor yet."""
        return self.room[task] - len(self.at[task])

    def admits(self, task: int, p: int, leaving: int | None = None) -> bool:
        """Whether p may hold one more copy of the task, or the one that leaves the location `leaving`."""
        place = self.question.place[p]
        return self.place_admits(task, place, leaving) and self.zone_admits(task, self.question.zone[place], leaving)

    def place_admits(self, task: int, place: int, leaving: int | None = None) -> bool:
        """Whether neither the active nor another copy is at this location."""
        return place != self.question.active_place[task] and (place == leaving or place not in self.at[task])

    def zone_admits(self, task: int, zone: int, leaving: int | None = None) -> bool:
        """Whether a copy may be in this zone, for all that the other copies are."""
        zone_of = self.question.zone
        seen = {self.question.active_zone(task)}
        sharing = 0
        for place in self.at[task]:
            if place != leaving:
                sharing += zone_of[place] in seen
                seen.add(zone_of[place])
        return zone not in seen or sharing < self.spare[task]

    def is_at_home(self, task: int, p: int) -> bool:
        """Whether p had this copy before."""
        return p in self.question.homes[task]

    def is_pinned(self, task: int, p: int) -> bool:
        """Whether somebody wants this copy where p is: then it stays there."""
        return self.question.place[p] in self.question.pinned[task]

    def vacant_homes(self, task: int) -> list[int]:
        """Processors that had a copy of the task and have none now."""
        return [home for home in self.question.homes[task] if task not in self.held[home]]

    def movers(self, p: int) -> list[int]:
        """The copies of p that were elsewhere and could be there."""
        return [
            task
            for task in self.held[p]
            if not self.is_at_home(task, p) and not self.is_pinned(task, p) and self.vacant_homes(task)
        ]
