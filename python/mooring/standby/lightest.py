"""The processor with the least load that may hold a copy, found without looking at all of them."""

from __future__ import annotations

from mooring.standby.copies import Copies
from mooring.standby.queue import Key, Queue


class Lightest:
    """All processors, by zone: least load first, then fewest actives, then natural order of ids."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        question = copies.question
        self._zone = [question.zone[place] for place in question.place]
        self._in_zone = {
            zone: Queue((p for p, of in enumerate(self._zone) if of == zone), self._key)
            for zone in sorted(question.open_zones)
        }
        self._zones = Queue(self._in_zone, self._key_of_zone)

    def place(self, task: int) -> int:
        """Give one more copy of the task to the lightest that may hold it, in the zone with the lightest of all."""
        copies = self._copies
        place = copies.question.place
        full: set[int] = set()
        while True:
            zone = self._zones.first(lambda zone: zone not in full and copies.zone_admits(task, zone))
            assert zone is not None, "a plan that keeps the rules can be completed"
            p = self._in_zone[zone].first(lambda p: copies.place_admits(task, place[p]))
            if p is not None:
                self.put(task, p)
                return p
            full.add(zone)

    def put(self, task: int, p: int) -> None:
        """Give p a copy of the task."""
        self._copies.put(task, p)
        self._in_zone[self._zone[p]].update(p)
        self._zones.update(self._zone[p])

    def _key(self, p: int) -> Key:
        return self._copies.load[p], self._copies.question.busy[p], p

    def _key_of_zone(self, zone: int) -> Key:
        first = self._in_zone[zone].first()
        assert first is not None, "an open zone has a processor"
        return self._key(first)
