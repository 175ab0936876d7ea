"""What the agent does with standbys: copies, take-over, evening out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.core import next_deadline_ms
from mooring.agent.publishing import barrier_timeout_ms
from mooring.agent.recovery import recovered
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.grouping import choose_grouper
from mooring.model import events, natural_order
from mooring.model.orders import LogLine, PublishPlan
from mooring.records.records import Remembered
from tests.unit.agent.builders import TIMING, Story, measured, running
from tests.unit.agent.next_agent import next_agent

FOUR = ("1@a", "2@b", "3@c", "4@d")
NEW_AGENT_MS = 100_000


def hosts(story: Story) -> dict[str, str]:
    return {id: executor.location for id, executor in story.state.fleet.executors.items()}


def owner(story: Story) -> dict[str, str]:
    return story.state.fleet.processor_of_task()


def said(story: Story) -> list[str]:
    return [order.message for order in story.orders if isinstance(order, LogLine)]


def jvm_choice(story: Story, *lost: str) -> dict[int, str]:
    """Where the JVM runs each task, by the rows that it holds, when these executors are gone."""
    return {p: next(id for id in row if id not in lost) for p, row in story.rows["q"].items()}


def test_each_task_has_a_copy_elsewhere_and_the_copies_are_even() -> None:
    story = running(partitions=6, factor=2)
    copies = story.copies["q"]
    assert {len(held) for held in copies.values()} == {1} and len(copies) == 6
    at = hosts(story)
    assert all(at[copies[p][0]] != at[executor] for p, executor in story.first_choice("q").items())
    assert sorted(Counter(held[0] for held in copies.values()).values()) == [2, 2, 2]


def test_with_factor_one_there_are_no_copies_and_rows_are_as_long_as_ever() -> None:
    story = running(partitions=6, executors=("1@a", "2@b", "3@c", "4@d", "5@e"))
    assert story.copies == {}
    assert {len(row) for row in story.rows["q"].values()} == {4}


def test_a_row_names_the_copies_right_behind_the_active() -> None:
    for factor in (2, 3, 4):
        story = running(partitions=12, executors=(*FOUR, "5@e", "6@f", "7@g", "8@h"), factor=factor)
        for partition, row in story.rows["q"].items():
            assert set(row[1:factor]) == set(story.copies["q"][partition])
            assert len(row) == len(set(row)) == factor + 3


def test_a_lost_executors_tasks_become_active_where_the_jvm_has_them_already() -> None:
    story = running(partitions=9, factor=2)
    before, by_copy = story.first_choice("q"), {p: held[0] for p, held in story.copies["q"].items()}
    fell_to = jvm_choice(story, "2")
    story.dies("2")
    assert story.first_choice("q") == fell_to
    assert fell_to == {p: by_copy[p] if executor == "2" else executor for p, executor in before.items()}
    carrier = story.state.fleet.executor_of
    assert {carrier[id] for id in owner(story).values()} == {"1", "3"}, "in the job model as well"


@pytest.mark.parametrize("lost", [("1", "2"), ("2", "1"), ("3", "4"), ("4", "1")])
def test_two_losses_before_the_agent_says_anything_leave_the_tasks_where_the_jvm_has_them(
    lost: tuple[str, str],
) -> None:
    story = running(partitions=13, executors=FOUR, factor=3)
    fell_to = jvm_choice(story, *lost)
    story.silent = {"1", "2", "3", "4"}  # the first version never gets through
    story.dies(lost[0])
    story.silent = set()
    story.dies(lost[1])
    story.after(TIMING.barrier_timeout_ms)
    assert story.first_choice("q") == fell_to


def test_copies_are_built_elsewhere_after_the_debounce_and_no_active_moves() -> None:
    story = running(partitions=8, executors=FOUR, factor=2)
    story.dies("2")
    actives = story.first_choice("q")
    story.after(TIMING.debounce_ms)
    assert story.first_choice("q") == actives
    assert len(story.copies["q"]) == 8 and "2" not in {held[0] for held in story.copies["q"].values()}
    assert story.state.fleet.standby_report.unplaced == ()


def test_an_executor_that_comes_back_cold_gets_copies_first_and_work_when_they_are_caught_up() -> None:
    story = running(partitions=9, factor=2)
    story.dies("2")
    after_loss = story.first_choice("q")
    story.after(5_000)
    story.joins("9@b")
    story.after(TIMING.debounce_ms)
    assert story.first_choice("q") == after_loss
    on_newcomer = {p for p, held in story.copies["q"].items() if held == ("9",)}
    assert len(on_newcomer) >= 3
    story.sees_copies("9", behind=1)
    assert story.first_choice("q") == after_loss
    story.sees_copies("9")
    assert story.sizes("q") == [3, 3, 3]
    assert {p for p, executor in story.first_choice("q").items() if executor == "9"} <= on_newcomer


def test_copies_that_never_catch_up_hold_nothing_up_for_longer_than_the_rebind_timeout() -> None:
    story = running(partitions=9, factor=2)
    story.joins("4@d")
    story.after(TIMING.debounce_ms)
    assert "4" not in story.first_choice("q").values()
    assert next_deadline_ms(story.state) == story.now_ms + TIMING.rebind_timeout_ms
    story.sees_copies("4", behind=3)
    story.after(TIMING.rebind_timeout_ms)
    assert story.sizes("q") == [3, 2, 2, 2]
    assert next_deadline_ms(story.state) == float("inf")


@pytest.mark.parametrize("factor", [1, 2])
def test_a_newcomer_has_more_time_to_warm_up_the_more_state_it_has_to_bring(factor: int) -> None:
    story = running(partitions=9, factor=factor)
    measured(story, 60 * TIMING.copy_bytes_a_second, partitions=9)
    story.take(events.BatchEnded(story.now_ms, "q", 0, 10, {}, 0, 0, 0))
    story.joins("4@d")
    story.after(TIMING.debounce_ms)
    story.after(TIMING.rebind_timeout_ms)
    assert "4" not in story.first_choice("q").values(), "it would open its stores cold"
    copies = sum("4" in held for held in story.copies["q"].values())
    story.after(copies * 120_000 - 1)
    assert "4" not in story.first_choice("q").values()
    story.after(1)
    assert "4" in story.first_choice("q").values(), "what never comes holds nothing up for ever"


def test_tasks_without_a_copy_stay_with_the_lost_processor_until_it_is_given_up() -> None:
    story = running(partitions=6, executors=("1@a", "2@a"), factor=2)
    before = owner(story)
    story.dies("1")
    assert owner(story) == before
    assert set(story.first_choice("q").values()) == {"2"}
    story.after(TIMING.rebind_timeout_ms)
    assert len(set(owner(story).values())) == 1


def test_a_copy_is_never_asked_for_where_the_task_runs_meanwhile() -> None:
    story = running(partitions=6, executors=("1@a", "2@a", "3@b"), factor=2)
    story.dies("3")  # its tasks go to their copies, all at a; then nobody else can have copies
    story.joins("4@c")
    story.dies("1")
    story.after(TIMING.debounce_ms)
    at = hosts(story)
    for partition, held in story.copies.get("q", {}).items():
        assert all(at[executor] != at[story.first_choice("q")[partition]] for executor in held)


def test_copies_that_find_no_place_are_told_once_and_counted() -> None:
    story = running(partitions=4, executors=("1@a", "2@b"), factor=3)
    assert len(story.state.fleet.standby_report.unplaced) == 4
    assert len(said(story)) == 1 and "4 standbys have no place" in said(story)[0]
    assert story.state.fleet.standby_report.counts.failed_allocations == 4
    story.joins("3@b")
    story.after(TIMING.debounce_ms)
    assert len(said(story)) == 1 and story.state.fleet.standby_report.counts.failed_allocations == 4
    story.joins("4@c")
    story.after(TIMING.debounce_ms)
    assert story.state.fleet.standby_report.unplaced == ()


def test_zones_are_minded_also_when_they_are_learned_later() -> None:
    story = running(partitions=8, executors=FOUR, factor=2)
    zones = {"1": "x", "2": "x", "3": "y", "4": "y"}
    for id, location in hosts(story).items():
        story.take(events.ExecutorRegistered(story.now_ms, id, location, 1, zones[id]))
    story.after(TIMING.debounce_ms)
    for partition, executor in story.first_choice("q").items():
        assert zones[story.copies["q"][partition][0]] != zones[executor]


def test_failovers_are_counted_by_whether_there_was_a_copy() -> None:
    story = running(partitions=9, factor=2)
    story.dies("2")
    counts = story.state.fleet.standby_report.counts
    assert (counts.failovers_to_standby, counts.failovers_to_any_host) == (3, 0)
    story.dies("2")
    assert story.state.fleet.standby_report.counts == counts, "the same loss is not counted twice"
    cold = running(partitions=9)
    cold.dies("2")
    counts = cold.state.fleet.standby_report.counts
    assert (counts.failovers_to_standby, counts.failovers_to_any_host) == (0, 3)


def test_ten_kills_in_a_row_find_a_copy_each_time() -> None:
    """Every 20 s one, in turn; its host has an executor again after 4 s, whose copies are caught up 5 s later."""
    story = running(partitions=12, factor=2)
    lost = 0
    for number in range(10):
        host = "abc"[number % 3]
        (victim,) = (id for id, location in hosts(story).items() if location == host)
        fell_to = jvm_choice(story, victim)
        lost += sum(executor == victim for executor in story.first_choice("q").values())
        story.dies(victim)
        assert story.first_choice("q") == fell_to
        story.after(4_000)
        story.joins(f"{10 + number}@{host}")
        story.after(5_000)
        story.sees_copies(*hosts(story))
        assert story.sizes("q") == [4, 4, 4]
        assert sorted(Counter(held[0] for held in story.copies["q"].values()).values()) == [4, 4, 4]
        story.after(11_000)
    counts = story.state.fleet.standby_report.counts
    assert (counts.failovers_to_standby, counts.failovers_to_any_host, lost) == (40, 0, 40)


def test_copies_that_were_seen_are_forgotten_with_their_executor_and_their_query() -> None:
    story = running(partitions=6, factor=2)
    story.sees_copies("1", "2", "3")
    assert len(story.state.fleet.copies) == 6
    story.dies("3")
    assert {executor for _, _, executor in story.state.fleet.copies} <= {"1", "2"}
    story.take(events.CopiesSeen(story.now_ms, "q", 12, (events.CopyOfState(0, "77", 12, 0, 1, 1),)))
    assert ("q", 0, "77") not in story.state.fleet.copies
    story.ends("q")
    assert story.state.fleet.copies == {}


def test_what_is_seen_of_copies_is_no_reason_for_a_plan() -> None:
    story = running(partitions=6, factor=2)
    orders = len(story.orders)
    story.sees_copies("1", "2", "3", behind=2)
    assert len(story.orders) == orders
    assert {copy.lag_versions for copy in story.state.fleet.copies.values()} == {2}


@pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 1), (2, 4), (4, 2), (3, 3)])
def test_the_factor_may_be_another_than_in_the_last_run(before: int, now: int) -> None:
    last = running(partitions=8, executors=FOUR, factor=before)
    story = Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(replication_factor=now))))
    story.joins("11@a", "12@b", "13@c", "14@d")
    story.state = recovered(story.state, Remembered(last.saved[-1].model), 0)
    story.plans("q", 8)
    back = {f"1{id}": id for id in "1234"}
    assert {p: back[executor] for p, executor in story.first_choice("q").items()} == last.first_choice("q")
    assert {len(held) for held in story.copies.get("q", {}).values()} == ({now - 1} if now > 1 else set())


def test_a_restart_without_a_host_runs_its_tasks_where_their_copies_were() -> None:
    last = running(partitions=9, factor=2)
    story = Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(replication_factor=2))))
    story.joins("11@a", "13@c")
    story.state = recovered(story.state, Remembered(last.saved[-1].model), 0)
    story.plans("q", 9)
    story.after(int(0.8 * TIMING.first_plan_wait_ms))
    assert story.first_choice("q") == {p: f"1{executor}" for p, executor in jvm_choice(last, "2").items()}


def test_a_new_query_finds_places_while_an_executor_is_missing() -> None:
    story = running(partitions=9, factor=2)
    story.dies("2")
    before = story.first_choice("q")
    story.plans("r", 4)
    story.after(TIMING.debounce_ms)
    assert story.first_choice("q") == before
    assert story.sizes("r") == [2, 2] and len(story.copies["r"]) == 4


def new_agent(last: Story, *executors: str, partitions: int = 9) -> Story:
    """Another agent of the same driver, which has made its first job model."""
    story = Story(state=new_agent_state(last, *executors, partitions=partitions), now_ms=NEW_AGENT_MS)
    story.after(TIMING.debounce_ms)
    return story


def new_agent_state(last: Story, *executors: str, partitions: int = 9) -> AgentState:
    """Another agent of the same driver, which knows what the one before it had saved and what the JVM holds."""
    hello = [
        events.PlanInForce(0, last.state.version_in_force, last.rows),
        *(events.ExecutorRegistered(NEW_AGENT_MS, *executor.split("@"), 1) for executor in executors),  # type: ignore[call-arg]
        events.QueryPlanned(1_000, "q", "run of q", "q", "file:/ck/q", 5, {0: partitions}),
    ]
    state = AgentState(fleet=Fleet(timing=TIMING, settings=last.state.fleet.settings))
    return next_agent(state, hello, Remembered(last.saved[-1].model), NEW_AGENT_MS)


def test_a_new_agent_leaves_actives_where_the_jvm_has_them() -> None:
    """An executor was lost, and the agent died before it could say anything."""
    last = running(partitions=9, executors=FOUR, factor=2)
    assert new_agent(last, "1@a", "3@c", "4@d").first_choice("q") == jvm_choice(last, "2")


@pytest.mark.parametrize("lost", ["1 2", "2 3", "4 1", "2"])
@pytest.mark.parametrize("living", [FOUR, (*FOUR, "5@a", "6@b", "7@c", "8@d")])
def test_a_new_agent_leaves_tasks_where_rows_fell_to_after_losses_without_an_agent(
    lost: str, living: tuple[str, ...]
) -> None:
    """A row was made for the loss of a whole location; now one of its executors is lost, or those of two locations."""
    last = running(partitions=26, executors=living, factor=3)
    remaining = [executor for executor in living if executor.partition("@")[0] not in lost.split()]
    assert new_agent(last, *remaining, partitions=26).first_choice("q") == jvm_choice(last, *lost.split())


def test_a_barrier_of_a_new_agent_has_its_usual_time_where_the_jvm_holds_a_plan() -> None:
    last = running(partitions=9, executors=FOUR, factor=2)
    state = new_agent_state(last, "1@a", "3@c", "4@d")
    assert barrier_timeout_ms(state) == TIMING.barrier_timeout_ms
    assert barrier_timeout_ms(replace(state, fleet=replace(state.fleet, rows_at_start={}))) < TIMING.barrier_timeout_ms


def test_a_new_agent_keeps_what_an_agent_before_it_had_taken_over() -> None:
    last = running(partitions=9, executors=FOUR, factor=2)
    last.dies("2")
    last.after(TIMING.debounce_ms)
    story = new_agent(last, "1@a", "3@c", "4@d")
    assert story.first_choice("q") == last.first_choice("q")
    assert story.copies == last.copies


@pytest.mark.parametrize(
    ("grouper", "sizes"),
    [
        ("single-container", [6]),
        ("group-by-container-count:2", [3, 3]),
        ("tests.unit.agent.users_groupers:RoundRobin", [2, 2, 2]),
        ("tests.unit.agent.users_groupers:Raises", [2, 2, 2]),
    ],
)
def test_the_chosen_grouper_groups_the_actives_and_copies_are_renewed_whatever_it_says(
    grouper: str, sizes: list[int]
) -> None:
    story = Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(choose_grouper(grouper), 2))))
    story.joins("1@a", "2@b", "3@c")
    story.after(TIMING.debounce_ms)
    story.plans("q", 6)
    assert story.sizes("q") == sizes
    victim = story.first_choice("q")[0]
    story.dies(victim)
    story.joins("4@d")
    story.after(TIMING.rebind_timeout_ms)
    story.sees_copies(*hosts(story))
    assert sum(story.sizes("q")) == 6 and victim not in story.first_choice("q").values()
    assert len(story.copies["q"]) == 6 and all(len(held) == 1 for held in story.copies["q"].values())
    assert story.sizes("q") == sizes or "was refused" in said(story)[-1]


def test_a_plan_that_differs_in_its_copies_only_is_published() -> None:
    story = running(partitions=6, factor=2)
    wanted = story.copies
    story.state = replace(story.state, published_copies={})
    assert [order.copies for order in story.after(1) if isinstance(order, PublishPlan)] == [wanted]


def test_nothing_is_published_again_while_nothing_happens() -> None:
    story = running(partitions=8, executors=FOUR, factor=3)
    published = [order for order in story.orders if isinstance(order, PublishPlan)]
    assert sorted(published[-1].copies["q"]) == list(range(8))
    assert [story.after(1_000) for _ in range(100)] == [[]] * 100
    assert sorted(story.copies["q"], key=lambda p: natural_order(str(p))) == list(range(8))
