"""What the agent hears of drains, and when it has to wait for it."""

from __future__ import annotations

import uuid

from mooring.agent.drains.watch import DrainWatch
from mooring.drain import DrainNotification, write_drain_notification
from mooring.metadata import MemoryMetadataStore
from mooring.testing.probes import wait_until
from tests.unit.drain.test_monitor import Unreachable


class Clock:
    """Stands still unless it is moved."""

    ms = 0

    def __call__(self) -> int:
        return self.ms


def test_what_was_asked_before_the_first_look_was_asked_before_the_start() -> None:
    with MemoryMetadataStore(uuid.uuid4().hex) as store:
        watch, early = DrainWatch(print, Clock()), DrainNotification.create("app")
        write_drain_notification(store, early)
        write_drain_notification(store, DrainNotification.create("another"))
        watch.begin(store, "app", 0.01)
        wait_until(lambda: not watch.is_first_look_near, "the first look", 10)
        first, looked = watch.new_events()
        assert first.notifications == (early,) and first.before_start
        assert looked.notifications == () and not looked.before_start
        late = DrainNotification.create("app")
        write_drain_notification(store, late)
        heard = []
        wait_until(lambda: bool(heard.extend(watch.new_events()) or heard), "the second", 10)
        assert [one.notifications for one in heard] == [(late,)] and not heard[0].before_start
        watch.stop()


def test_a_store_that_does_not_answer_is_not_waited_for_any_longer() -> None:
    clock, store = Clock(), Unreachable()
    store.looks = -(10**9)
    watch = DrainWatch(lambda message: None, clock)
    assert not watch.is_first_look_near
    watch.begin(store, "app", 0.01)
    assert watch.is_first_look_near
    clock.ms = 10_000
    assert not watch.is_first_look_near and watch.new_events() == []
    watch.stop()
