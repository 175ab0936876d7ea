"""The agent's counters: what events have reported since this agent started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from mooring.agent.state.fleet import Fleet, Query, task_of_store
from mooring.model import events

_MOST_ENDED: Final = 100
"""How many ended queries the status shows."""


@dataclass
class Counters:
    """Counts since this agent started.

    `restores` counts the state stores that were opened from files, and their files and bytes. An opening is local when
    it fetched no files but changelogs from the checkpoint. `milliseconds` is the total time of local openings, of other
    openings, and of openings that fetched bytes.

    `fetches` maps query id and executor to the last report of what the executor fetches when the query starts.
    `opened_in` maps checkpoint and partition to the time of the last opening of each store, in milliseconds. `ended`
    are the last queries that have ended, by id.
    """

    batches: Counter[str] = field(default_factory=Counter)
    planned: int = 0
    as_planned: int = 0
    moves: int = 0
    restores: Counter[str] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)
    fetches: dict[tuple[str, str], events.StoresFetched] = field(default_factory=dict)
    opened_in: dict[tuple[str, int], dict[str, int]] = field(default_factory=dict)
    ended: dict[str, Query] = field(default_factory=dict)

    def end(self, gone: Iterable[Query], running: Container[str]) -> None:
        """Add queries that have ended, and keep the newest. `running` has the ids of the queries that run."""
        known = {**self.ended, **{query.id: query for query in gone}}
        ended = [(id, query) for id, query in known.items() if id not in running]
        self.ended = dict(ended[-_MOST_ENDED:])

    def count(self, event: events.Event) -> None:
        """Count an event."""
        match event:
            case events.BatchEnded():
                self.batches[event.query] += 1
                self.planned += event.planned
                self.as_planned += event.as_planned
            case events.StoreOpened():
                self.restores["local-opens" if event.remote_files == 0 else "remote-opens"] += 1
                self.milliseconds["local" if event.remote_files == 0 else "other"] += event.milliseconds
                took = event.milliseconds + event.ahead_ms
                self.milliseconds["fetching"] += took if event.remote_bytes else 0
                self.restores["restore-bytes-local"] += event.local_bytes
                self.restores["restore-bytes-remote"] += event.remote_bytes
                self.restores["remote-changelogs"] += event.remote_changelogs
                self.restores["restore-ms"] += took
                task = task_of_store(event.store)
                if task is not None:
                    self.opened_in.setdefault(task, {})[event.store] = took
            case events.StoresFetched():
                self.fetches[event.query, event.executor] = event
            case events.ExecutorLost():
                self.fetches = {key: seen for key, seen in self.fetches.items() if key[1] != event.executor}
            case events.QueryEnded():
                self.fetches = {key: seen for key, seen in self.fetches.items() if key[0] != event.query}
            case events.CopiesSeen():
                self.restores["standby-bytes-remote"] += sum(copy.fetched_bytes for copy in event.copies)

    def restore_ms(self, fleet: Fleet) -> dict[str, int]:
        """Task name to the time of the last opening of all its stores, in milliseconds."""
        return {
            str(query.task_name(partition)): sum(stores.values())
            for query in fleet.queries.values()
            for partition in range(query.task_count)
            if (stores := self.opened_in.get((query.checkpoint.rstrip("/"), partition)))
        }

    def recovery_seconds(self, bytes_to_fetch: int | None) -> float | None:
        """The estimated time to restore a task on an executor that lacks `bytes_to_fetch` of its state, in seconds.

        It is the time to fetch the bytes, at the rate of earlier openings, and the mean time of a local opening. None
        while a needed value was not measured.
        """
        opens = self.restores["local-opens"]
        opening = self.milliseconds["local"] / opens if opens else None
        if bytes_to_fetch == 0:
            return None if opening is None else round(opening / 1000, 3)
        fetched, took = self.restores["restore-bytes-remote"], self.milliseconds["fetching"]
        if bytes_to_fetch is None or not fetched or not took:
            return None
        return round((bytes_to_fetch * took / fetched + (opening or 0)) / 1000, 3)

    def by_metric(self, fleet: Fleet) -> dict[str, int]:
        """All counts, by the names of their metrics."""
        names = (
            "local-opens",
            "remote-opens",
            "restore-bytes-local",
            "restore-bytes-remote",
            "remote-changelogs",
            "restore-ms",
            "standby-bytes-remote",
        )
        standbys = fleet.standby_report.counts
        return {
            "batches": sum(self.batches.values()),
            "preferred-host-requests": self.planned,
            "placed-as-planned": self.as_planned,
            "moves": self.moves,
            "failovers-to-standby": standbys.failovers_to_standby,
            "failovers-to-any-host": standbys.failovers_to_any_host,
            "failed-standby-allocations": standbys.failed_allocations,
            **{name: self.restores[name] for name in names},
        }
