from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from mooring.agent.checkpoints.leases import Leases
from mooring.checkpoint import Lease, lease_on
from mooring.errors import MetadataStoreUnavailable
from mooring.metadata.local_tree import LocalFileTree
from mooring.model import events
from mooring.testing.probes import wait_until

STARTED = events.ApplicationStarted(1, "app-7", "job", {}, "")


def taken(run: str, checkpoint: Path) -> events.CheckpointTaken:
    return events.CheckpointTaken(1, run, str(checkpoint))


def test_a_checkpoint_is_noted_while_its_query_runs(tmp_path: Path) -> None:
    said: list[str] = []
    leases = Leases(LocalFileTree, said.append, lambda: 5_000)
    leases.handle(STARTED)
    assert not [thread for thread in threading.enumerate() if thread.name == "mooring-leases"], "no query, no thread"
    leases.handle(taken("q", tmp_path))
    wait_until(lambda: lease_on(tmp_path) == Lease("app-7", 5_000), "the note", 5)
    leases.handle(events.CheckpointLeft(2, "q"))
    wait_until(lambda: lease_on(tmp_path) is None, "no note", 5)
    leases.handle(taken("q", tmp_path))
    wait_until(lambda: lease_on(tmp_path) is not None, "the note again", 5)
    leases.end()
    assert lease_on(tmp_path) is None and not said


def test_a_note_that_can_not_be_written_is_said_once(tmp_path: Path) -> None:
    said: list[str] = []
    tried = threading.Semaphore(0)

    class Away:
        def write_atomic(self, name: str, data: bytes) -> None:
            tried.release()
            raise MetadataStoreUnavailable("the bucket does not answer")

        def delete(self, name: str) -> None:
            raise MetadataStoreUnavailable("the bucket does not answer")

    def away(directory: str) -> Any:
        return Away()

    leases = Leases(away, said.append, lambda: 5_000)
    for query in ("q", "r"):
        leases.handle(taken(query, tmp_path / query))
        assert tried.acquire(timeout=5)
    leases.end()
    assert len(said) == 1 and "the bucket does not answer" in said[0]


def test_a_note_holds_for_a_minute_and_one_that_makes_no_sense_is_none(tmp_path: Path) -> None:
    assert Lease("a", 1_000).holds(60_999) and not Lease("a", 1_000).holds(61_000)
    (tmp_path / "_mooring").mkdir()
    for text in ("", "{", '{"application": "a"}', "[]"):
        (tmp_path / "_mooring" / "in-use.json").write_text(text)
        assert lease_on(tmp_path) is None
