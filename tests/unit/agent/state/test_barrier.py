"""A new version waits for the executors that live, and for no other."""

from __future__ import annotations

import pytest

from mooring.agent.core import next_deadline_ms
from mooring.agent.counters import Counters
from mooring.agent.status import status_of
from mooring.cli.status import as_text
from mooring.model import events
from mooring.model.orders import AnnounceVersion, LogLine, PublishPlan
from tests.seeds import seeded
from tests.unit.agent.builders import TIMING, Story, running

TIMEOUT = TIMING.barrier_timeout_ms


def scaled_out(silent: str = "1") -> Story:
    """Three executors under way, of which some do not speak; then a fourth comes."""
    story = running(partitions=8)
    story.silent = set(silent.split())
    story.joins("4@d")
    story.after(TIMING.debounce_ms)
    return story


def version(story: Story) -> int:
    return story.state.fleet.model.version


def test_a_version_is_published_when_all_have_taken_it_up() -> None:
    story = scaled_out()
    before = story.rows
    assert story.barriers[version(story)] == "NEW"
    story.take(events.PlanPickedUp(story.now_ms, "1", version(story)))
    assert story.barriers[version(story)] == "DONE"
    assert story.rows != before and story.sizes("q") == [2, 2, 2, 2]


def test_until_then_the_last_version_is_obeyed() -> None:
    story = scaled_out()
    assert story.sizes("q") == [3, 3, 2]
    assert story.state.plan_barrier.is_new
    assert next_deadline_ms(story.state) <= story.now_ms + TIMEOUT


def test_an_executor_that_dies_holds_nobody_up() -> None:
    story = scaled_out()
    story.dies("1")
    assert story.barriers[version(story)] == "DONE"
    assert "1" not in story.first_choice("q").values()


def test_who_is_silent_is_given_up_and_the_version_replaced() -> None:
    story = scaled_out()
    announced = version(story)
    story.after(TIMEOUT)
    assert story.barriers[announced] == "TIMED_OUT"
    assert story.barriers[announced + 1] == "DONE" and version(story) == announced + 1
    assert story.sizes("q") == [2, 2, 2, 2]
    (said,) = (order for order in story.orders if isinstance(order, LogLine))
    assert f"executors 1 did not take up placement version {announced}" in said.message


def test_who_was_given_up_is_not_waited_for_until_it_speaks() -> None:
    story = scaled_out()
    story.after(TIMEOUT)
    story.joins("5@e")
    story.after(TIMING.debounce_ms)
    assert story.barriers[version(story)] == "DONE"
    story.take(events.PlanPickedUp(story.now_ms, "1", version(story)))
    story.joins("6@f")
    story.after(TIMING.debounce_ms)
    assert story.barriers[version(story)] == "NEW"


def test_an_older_word_does_not_count() -> None:
    story = scaled_out()
    story.take(events.PlanPickedUp(story.now_ms, "1", version(story) - 1))
    assert story.state.plan_barrier.is_new


def test_a_version_that_a_newer_one_overtakes_is_ended() -> None:
    story = scaled_out()
    overtaken = version(story)
    story.joins("5@e")
    story.after(TIMEOUT - 1)  # the debounce is over, the barrier's time is not
    assert version(story) == overtaken + 1
    assert (story.barriers[overtaken], story.barriers[overtaken + 1]) == ("TIMED_OUT", "NEW")


def test_newer_versions_do_not_give_a_silent_executor_more_time() -> None:
    story = scaled_out()
    since = story.now_ms
    for number in range(5, 9):
        story.joins(f"{number}@e")
        story.after(TIMING.debounce_ms)
        if story.barriers[version(story)] == "DONE":
            break
    assert story.now_ms - since <= TIMEOUT + TIMING.debounce_ms
    assert "1" in story.state.plan_barrier.late


def test_a_first_plan_that_waits_for_a_silent_executor_is_there_in_time() -> None:
    story = Story(silent={"1"})
    story.joins("1@a", "2@b")
    story.after(TIMING.debounce_ms)
    story.plans("q", 4)
    planned = story.now_ms
    assert not story.rows
    while not story.rows:
        story.after(100)
    assert story.now_ms - planned < 0.2 * TIMING.first_plan_wait_ms


def test_losses_under_the_obeyed_version_wait_for_nobody() -> None:
    story = running(partitions=8)
    story.silent = {"1", "3"}
    story.dies("2")
    assert set(story.first_choice("q").values()) == {"1", "3"}


def test_a_new_agent_goes_on_above_what_was_offered() -> None:
    story = Story()
    story.take(events.PlanInForce(0, 4, {"q": {0: ("1",)}}, announced=9))
    story.joins("1@a")
    story.after(TIMING.debounce_ms)
    story.plans("q", 1)
    announced_versions = [order.version for order in story.orders if isinstance(order, AnnounceVersion)]
    assert announced_versions and min(announced_versions) == 10


def test_status_shows_who_is_waited_for_and_what_changed() -> None:
    story = scaled_out(silent="1 3")
    record = status_of(story.state.fleet, Counters(), 0, story.state.plan_barrier)
    assert record["barrier"] == {"version": version(story), "state": "NEW", "waiting-for": ["1", "3"]}
    assert sum(task["changed"] for task in record["tasks"]) == 2
    shown = as_text(record, 0)
    assert f"version {version(story)} is NEW, waiting for 2 executors: 1, 3; 2 tasks changed, 6 unchanged" in shown


@pytest.mark.slow
@pytest.mark.parametrize("salt", range(40))
def test_whatever_happens_no_plan_is_published_before_its_barrier_is_done(salt: int) -> None:
    chance = seeded(salt)
    story = running(partitions=chance.randrange(1, 20))
    for number in range(60):
        living = sorted(story.state.fleet.executors)
        match chance.randrange(5):
            case 0:
                story.joins(f"{100 + number}@{chance.choice('abcdef')}")
            case 1 if len(living) > 1:
                story.dies(chance.choice(living))
            case 2:
                story.silent = set(chance.sample(living, chance.randrange(len(living) + 1)))
            case 3:
                story.take(events.PlanPickedUp(story.now_ms, chance.choice(living), version(story)))
            case _:
                story.after(chance.randrange(5_000))
    done: set[int] = set()
    for order in story.orders:
        if getattr(order, "state", "") == "DONE":
            done.add(order.version)  # type: ignore[attr-defined]
        if isinstance(order, PublishPlan):
            assert order.version in done
    story.silent = set()
    story.after(TIMING.rebind_timeout_ms + TIMEOUT)
    story.after(TIMEOUT)
    assert not story.state.plan_barrier.is_new
    assert set(story.barriers.values()) <= {"DONE", "TIMED_OUT"}
    assert story.state.version_in_force == version(story)
