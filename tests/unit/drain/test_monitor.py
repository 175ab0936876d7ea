"""Who hears of a drain, and when."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from mooring.drain import NAMESPACE, DrainMonitor, DrainNotification, MonitorState, write_drain_notification
from mooring.errors import MetadataStoreUnavailable, MooringError
from mooring.metadata import MemoryMetadataStore

PATIENCE = 10.0


class Listener:
    """Takes down what the monitor says, and to whom."""

    def __init__(self, store: MemoryMetadataStore) -> None:
        self.heard: list[DrainNotification] = []
        self.reports: list[str] = []
        self.news = threading.Semaphore(0)
        self.monitor = DrainMonitor(store, "app-1", poll_interval=0.01, report=self._report)

    def called(self, notifications: Sequence[DrainNotification]) -> None:
        self.heard += notifications
        self.news.release()

    def _report(self, text: str) -> None:
        self.reports.append(text)
        self.news.release()

    def hears_twice(self) -> None:
        """Look until two things were heard, calls or reports."""
        self.monitor.init(self.called)
        self.monitor.start()
        self.wait()
        self.wait()
        self.monitor.stop()

    def wait(self) -> None:
        assert self.news.acquire(timeout=PATIENCE), "nothing was heard"


def test_one_that_was_written_before_the_start_is_heard_and_each_once() -> None:
    store = MemoryMetadataStore()
    first, second = DrainNotification.create("app-1"), DrainNotification.create("app-1")
    write_drain_notification(store, DrainNotification.create("app-2"))
    write_drain_notification(store, first)
    listener = Listener(store)
    listener.monitor.init(listener.called)
    assert listener.monitor.state is MonitorState.INIT
    listener.monitor.start()
    listener.wait()
    assert listener.heard == [first] and listener.monitor.state is MonitorState.RUNNING
    write_drain_notification(store, second)
    listener.wait()
    listener.monitor.stop()
    assert listener.heard == [first, second] and listener.monitor.state is MonitorState.STOPPED


def test_what_can_not_be_read_is_removed_and_reported_and_disables_nothing() -> None:
    store = MemoryMetadataStore()
    store.put(f"{NAMESPACE}/half", b"{")
    asked = DrainNotification.create("app-1")
    write_drain_notification(store, asked)
    listener = Listener(store)
    listener.hears_twice()
    assert listener.heard == [asked] and len(listener.reports) == 1 and "half" in listener.reports[0]
    assert f"{NAMESPACE}/half" not in store.all()


class Unreachable(MemoryMetadataStore):
    """Out of reach for the first few looks."""

    looks = 0

    def all(self, prefix: str = "") -> dict[str, bytes]:
        self.looks += 1
        if self.looks <= 3:
            raise MetadataStoreUnavailable("nobody answers")
        return super().all(prefix)


def test_while_the_store_is_out_of_reach_it_looks_on_and_says_so_once() -> None:
    store = Unreachable()
    asked = DrainNotification.create("app-1")
    write_drain_notification(store, asked)
    listener = Listener(store)
    listener.hears_twice()
    assert listener.heard == [asked] and len(listener.reports) == 1 and "nobody answers" in listener.reports[0]


def test_a_call_that_fails_is_made_again() -> None:
    store = MemoryMetadataStore()
    asked = DrainNotification.create("app-1")
    write_drain_notification(store, asked)
    listener, failures = Listener(store), [OSError("not yet")]

    def fail_once(notifications: Sequence[DrainNotification]) -> None:
        if failures:
            raise failures.pop()
        listener.called(notifications)

    listener.monitor.init(fail_once)
    listener.monitor.start()
    listener.wait()
    listener.wait()
    listener.monitor.stop()
    assert listener.heard == [asked] and "not yet" in listener.reports[0]


def test_it_needs_somebody_to_call_and_only_one() -> None:
    listener = Listener(MemoryMetadataStore())
    with pytest.raises(MooringError, match="call init first"):
        listener.monitor.start()
    listener.monitor.init(listener.called)
    with pytest.raises(MooringError, match="has a callback already"):
        listener.monitor.init(listener.called)
    listener.monitor.stop()
    listener.monitor.start()
    assert listener.monitor.state is MonitorState.STOPPED, "what was stopped does not begin again"


def test_it_can_be_stopped_by_the_call() -> None:
    store = MemoryMetadataStore()
    write_drain_notification(store, DrainNotification.create("app-1"))
    monitor, over = DrainMonitor(store, "app-1", poll_interval=0.01), threading.Event()

    def stop(_: Sequence[DrainNotification]) -> None:
        monitor.stop()
        over.set()

    monitor.init(stop)
    monitor.start()
    assert over.wait(PATIENCE)
