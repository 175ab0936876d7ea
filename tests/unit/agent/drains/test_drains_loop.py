"""Drains through the agent's loop and a store: what was asked before the start, and what a new agent goes on with."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from functools import partial

import pytest

from mooring.agent.loop import Agent
from mooring.agent.records_writer import RecordsWriter
from mooring.drain import DrainNotification, RunningQuery, read_drain_notifications, write_drain_notification
from mooring.errors import AgentError
from mooring.metadata import MemoryMetadataStore
from mooring.model import events
from mooring.records.records import STATUS, Records
from mooring.testing.probes import wait_until
from tests.unit.agent.requests.test_requests_loop import LivingBridge
from tests.unit.agent.test_loop import started

STARTING = events.QueryStarting(0, "q", "run", "file:/ck/q")
RUNNING = RunningQuery("q", "run", "clicks", frozenset({"/in"}), frozenset({"/out"}))
TIMES_AS_FAST = 100


@pytest.fixture
def store() -> Iterator[MemoryMetadataStore]:
    with MemoryMetadataStore(uuid.uuid4().hex) as store:
        yield store


class Running:
    """An agent in a thread, for whom time goes faster, until the end of the block."""

    def __init__(self, store: MemoryMetadataStore, *news: list[events.Event]) -> None:
        self.bridge = LivingBridge(*news)
        self.bridge.running = (RUNNING,)
        self._memory = RecordsWriter(partial(Records, store), self.bridge.said.append)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        agent = Agent(self.bridge, lambda *_: self._memory, now_ms=lambda: int(time.monotonic() * 1000 * TIMES_AS_FAST))
        with pytest.raises(AgentError, match="gone"):
            agent.run()

    def __enter__(self) -> LivingBridge:
        self._thread.start()
        return self.bridge

    def __exit__(self, *raised: object) -> None:
        self.bridge.is_over.set()
        self._thread.join(10)
        self._memory.close()


def test_a_query_that_starts_hears_that_nobody_has_asked(store: MemoryMetadataStore) -> None:
    with Running(store, [started()], [STARTING]) as bridge:
        wait_until(lambda: bridge.drains_asked == [()], "the word", 10)
        assert bridge.ended == []


def test_what_was_asked_before_the_start_is_done_and_told_though_no_batch_was_planned(
    store: MemoryMetadataStore,
) -> None:
    write_drain_notification(store, DrainNotification.create("app-1"))
    with Running(store, [started()], [STARTING]) as bridge:
        wait_until(lambda: bridge.ended == [("q", "DRAIN")], "it to be told", 10)
        assert bridge.drains_asked[0] == (None,)
        assert bridge.told[-1] == "drain: clicks" and bridge.said == [], "at INFO, as an operator's ordinary action"
        bridge.running = ()
        bridge.news.append([events.DrainProgressed(0, "q", "run", "drained", batch=3)])
        wait_until(lambda: bridge.drains_asked[-1] == (), "the drain to be over", 10)
        wait_until(lambda: not read_drain_notifications(store).notifications, "the request to be removed", 10)
        wait_until(lambda: store.get(STATUS) is not None, "the status", 10)
        (row,) = json.loads(store.get(STATUS) or b"")["drains"]
        assert (row["query"], row["phase"], row["batch"]) == ("clicks", "drained", 3)


@pytest.mark.parametrize("before", [[], [events.DrainOwed(0, "q", frozenset(), held=True)]])
def test_a_new_agent_goes_on_with_what_is_held(before: list[events.Event], store: MemoryMetadataStore) -> None:
    """The JVM tells what is true now, in an order in which the settings may come after it."""
    if not before:
        write_drain_notification(store, DrainNotification.create("app-1", "clicks"))
    with Running(store, [*before, started(), STARTING]) as bridge:
        wait_until(lambda: bridge.ended == [("q", "DRAIN")], "it to be told", 10)


def test_a_new_agent_knows_of_one_that_failed_before_and_tells_nobody_whom_it_feeds(store: MemoryMetadataStore) -> None:
    failed = events.DrainProgressed(
        0, "p", "run-p", "failed", reason="it failed: no such file", name="orders", writes=("FileSink[/in]",)
    )
    write_drain_notification(store, DrainNotification.create("app-1"))
    with Running(store, [failed, started(), STARTING]) as bridge:
        wait_until(lambda: bridge.drains_asked[-1:] == [()], "the drain to be over", 10)
        wait_until(lambda: not read_drain_notifications(store).notifications, "the request to be removed", 10)
        wait_until(lambda: store.get(STATUS) is not None, "the status", 10)
        rows = json.loads(store.get(STATUS) or b"")["drains"]
        assert [(row["query"], row["phase"]) for row in rows] == [("clicks", "not-told"), ("orders", "failed")]
        assert bridge.ended == []


def test_sigterm_is_heard_of_by_an_agent_that_comes_later(store: MemoryMetadataStore) -> None:
    with Running(store, [events.TerminationAsked(0), started()]) as bridge:
        wait_until(lambda: bridge.ended == [("q", "DRAIN")], "it to be told", 10)
