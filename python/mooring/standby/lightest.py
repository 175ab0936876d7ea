"""The least loaded processor that may hold a copy, found without a search through all processors."""

from __future__ import annotations

from mooring.standby.copy_plan import CopyPlan
from mooring.standby.priority_queue import Key, PriorityQueue


class Lightest:
    """All processors, by zone: least load first, then fewest active tasks, then natural order of ids.

    Changes of the plan must go through `put`, so that the order stays right.
    """

    def __init__(self, plan: CopyPlan) -> None:
        self._plan = plan
        problem = plan.problem
        self._zone = [problem.zone[location] for location in problem.location]
        self._in_zone = {
            zone: PriorityQueue((p for p, its_zone in enumerate(self._zone) if its_zone == zone), self._key)
            for zone in sorted(problem.open_zones)
        }
        self._zones = PriorityQueue(self._in_zone, self._key_of_zone)

    def put_anywhere(self, task: int) -> int:
        """Give one more copy of the task to the lightest processor that may hold it, and return that processor.

        The zone whose lightest processor is the lightest of all is tried first.
        """
        plan = self._plan
        location = plan.problem.location
        full: set[int] = set()
        while True:
            zone = self._zones.first(lambda zone: zone not in full and plan.zone_admits(task, zone))
            assert zone is not None, "a plan that keeps the rules can be completed"
            p = self._in_zone[zone].first(lambda p: plan.location_admits(task, location[p]))
            if p is not None:
                self.put(task, p)
                return p
            full.add(zone)

    def put(self, task: int, p: int) -> None:
        """Give p a copy of the task."""
        self._plan.put(task, p)
        self._in_zone[self._zone[p]].update(p)
        self._zones.update(self._zone[p])

    def _key(self, p: int) -> Key:
        return self._plan.load[p], self._plan.problem.busy[p], p

    def _key_of_zone(self, zone: int) -> Key:
        first = self._in_zone[zone].first()
        assert first is not None, "an open zone has a processor"
        return self._key(first)
