"""An executor that serves its tasks badly lends them to others; the reasons for that."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from mooring.agent.counters import Counters
from mooring.agent.planning.moves_in_steps import is_settled
from mooring.agent.status import status_of
from mooring.model import events
from mooring.model.event_json import read_event
from tests.unit.agent.builders import running
from tests.unit.agent.planning.lent_tasks import ROWS, USUAL_MS, Batches, after_six_usual_batches


@pytest.fixture
def batches() -> Batches:
    return after_six_usual_batches()


def test_the_event_is_read_from_its_json() -> None:
    placement = {"partition": 3, "executor": "2", "wanted": "1", "milliseconds": 70, "rows": 5, "speculative": True}
    placement["failed-on"] = ["7"]
    form = {"event": "BatchEnded", "at": 1, "query": "q", "batch": 0, "milliseconds": 9, "placements": [placement]}
    event = read_event({**form, "planned": 1, "as-planned": 0, "state-bytes": 0})
    assert isinstance(event, events.BatchEnded)
    assert event.runs == {3: events.TaskRun("1", 70, 5, True, frozenset("7"))} and event.placements == {3: "2"}


def test_an_executor_that_is_slow_for_good_lends_its_tasks(batches: Batches) -> None:
    before = batches.plan
    batches.run(2, slow_on="1")
    assert not batches.loans(), "it may be a pause"
    batches.run(slow_on="1")
    assert "more than 3 times as long" in batches.loans()["1"]
    own = [p for p, executor in before.items() if executor == "1"]
    assert sorted(batches.plan[p] for p in own) == ["2", "2", "3", "3"], "evenly"
    assert all(batches.story.rows["q"][p][-1] == "1" for p in own)
    assert {p: batches.plan[p] for p in before if p not in own} == {p: before[p] for p in before if p not in own}
    (line,) = batches.said()
    assert "tasks of q run elsewhere than on executor 1 on a" in line and "tries it again in 60 s" in line
    status = status_of(batches.story.state.fleet, Counters(), 0)
    assert [one["executor"] for one in status["processors"] if "lent-because" in one] == ["1"]
    batches.run()
    assert is_settled(batches.story.state.fleet), "they run where they are to run"


def test_what_is_slow_everywhere_is_nobodys_fault(batches: Batches) -> None:
    batches.run(12, slow_on="123")
    assert not batches.loans()


def test_more_rows_may_take_longer(batches: Batches) -> None:
    heavy = [p for p, executor in batches.plan.items() if executor == "1"]
    for _ in range(6):
        batches.run(rows=5 * ROWS, milliseconds=lambda p, at: 5 * USUAL_MS if p in heavy else USUAL_MS)
    assert not batches.said()


def test_tasks_that_were_always_slower_are_no_reason() -> None:
    batches = Batches(running(partitions=12))
    heavy = [p for p, executor in batches.plan.items() if executor == "1"]
    batches.run(12, milliseconds=lambda p, at: 9_000 if p in heavy else 500)
    assert not batches.loans()


def test_pauses_now_and_then_are_no_reason(batches: Batches) -> None:
    for turn in range(12):
        batches.run(slow_on="1" if turn % 3 else "")
    assert not batches.loans()


def test_an_executor_that_speculation_outran_twice_lends_its_tasks(batches: Batches) -> None:
    batches.run(outrun="1")
    batches.run(10)
    assert not batches.loans()
    batches.run(outrun="1")
    assert "by speculation" in batches.loans()["1"]


def test_two_such_batches_that_lie_far_apart_are_no_reason(batches: Batches) -> None:
    batches.run(outrun="1")
    batches.run(12)
    batches.run(outrun="1")
    assert not batches.loans()


def test_tasks_that_wait_in_vain_beside_one_that_is_outrun_count(batches: Batches) -> None:
    own = [p for p, executor in batches.plan.items() if executor == "1"]
    wanted = batches.plan
    placements = {**wanted, own[0]: "2", own[1]: "3"}
    runs = {p: events.TaskRun(wanted[p], USUAL_MS, ROWS, p == own[0]) for p in wanted}
    batches.story.take(events.BatchEnded(0, "q", 9, 10, placements, 12, 10, runs=runs))
    assert "ran elsewhere" in batches.loans()["1"], "this batch has cost the locality wait"


@pytest.mark.parametrize(("in_vain", "slow", "is_lent"), [(2, 1, True), (1, 1, False), (2, 0, False), (3, 1, True)])
def test_tasks_that_a_slow_one_keeps_from_their_executor_are_lent_when_half_of_them_have_left(
    batches: Batches, in_vain: int, slow: int, is_lent: bool
) -> None:
    wanted = batches.plan
    own = [p for p, executor in wanted.items() if executor == "1"]
    placements = {**wanted, **dict.fromkeys(own[:in_vain], "2")}
    took = {p: USUAL_MS * (5 if p in own[4 - slow :] else 1) for p in wanted}
    runs = {p: events.TaskRun(wanted[p], took[p], ROWS, False) for p in wanted}
    batches.story.take(events.BatchEnded(0, "q", 9, 10, placements, 12, 10, runs=runs))
    assert bool(batches.loans()) == is_lent


def left_by_half(batches: Batches) -> None:
    """A batch in which one task of executor 1 is slow, and two run elsewhere for that."""
    wanted = batches.plan
    own = [p for p, executor in wanted.items() if executor == "1"]
    placements = {**wanted, own[0]: "2", own[1]: "3"}
    runs = {p: events.TaskRun(wanted[p], USUAL_MS * (5 if p == own[3] else 1), ROWS, False) for p in wanted}
    batches.story.now_ms += 5_000
    batches.story.take(events.BatchEnded(batches.story.now_ms, "q", 9, 10, placements, 12, 10, runs=runs))


def test_within_an_hour_after_a_loan_one_such_batch_is_not_enough(batches: Batches) -> None:
    left_by_half(batches)
    assert batches.loans()
    while batches.loans():
        batches.run()
    batches.run(10)
    left_by_half(batches)
    assert not batches.loans()
    batches.story.now_ms += 3_700_000
    batches.run(4)
    left_by_half(batches)
    assert batches.loans()


def test_where_tasks_wait_in_vain_all_the_time_one_slow_task_is_not_enough(batches: Batches) -> None:
    for milliseconds in (1, 1, 5):
        wanted = batches.plan
        own = [p for p, executor in wanted.items() if executor == "1"]
        placements = {**wanted, own[0]: "2", own[1]: "3"}
        took = {p: USUAL_MS * (milliseconds if p == own[3] else 1) for p in wanted}
        runs = {p: events.TaskRun(wanted[p], took[p], ROWS, False) for p in wanted}
        batches.story.take(events.BatchEnded(0, "q", 9, 10, placements, 12, 10, runs=runs))
    assert not batches.loans()


def test_one_task_that_is_outrun_now_and_then_is_no_reason(batches: Batches) -> None:
    for _ in range(6):
        wanted = batches.plan
        first = next(p for p, executor in wanted.items() if executor == "1")
        placements = {**wanted, first: "2"}
        runs = {p: events.TaskRun(wanted[p], USUAL_MS, ROWS, p == first) for p in wanted}
        batches.story.take(events.BatchEnded(0, "q", 9, 10, placements, 12, 11, runs=runs))
    assert not batches.loans()


def test_an_executor_on_which_tasks_fail_lends_them(batches: Batches) -> None:
    batches.run(fail="1")
    batches.run(2)
    assert not batches.loans()
    batches.run(fail="1")
    assert "they failed there and went well elsewhere" in batches.loans()["1"]


def test_an_executor_that_takes_none_lends_its_tasks(batches: Batches) -> None:
    batches.run(refuse="1")
    assert not batches.loans()
    batches.run(refuse="1")
    assert "it took none of them" in batches.loans()["1"]


def test_where_no_task_waits_none_is_refused(batches: Batches) -> None:
    state = batches.story.state
    application = replace(state.fleet.application, locality_wait_ms=0)
    batches.story.state = replace(state, fleet=replace(state.fleet, application=application))
    batches.run(12, refuse="1")
    assert not batches.loans()


def test_no_more_than_half_of_the_executors_lend(batches: Batches) -> None:
    batches.run(6, refuse="12")
    assert len(batches.loans()) == 1


def test_a_loan_ends_when_the_plan_has_its_tasks_elsewhere(batches: Batches) -> None:
    batches.run(2, refuse="1")
    fleet = batches.story.state.fleet
    (processor,) = (one for one in fleet.processors.values() if one.executor == "1")
    away = replace(processor, executor="2")
    batches.story.state = replace(batches.story.state, fleet=fleet.with_processor(away))
    batches.run()
    assert not batches.loans()


def test_a_loan_ends_with_its_executor_and_with_its_query(batches: Batches) -> None:
    batches.run(2, refuse="1")
    batches.story.dies("1")
    assert not batches.loans()
    batches.run(2, refuse="2")
    assert batches.loans()
    batches.story.ends("q")
    assert not batches.loans() and not batches.story.state.fleet.lending.runs


def test_lent_tasks_stay_where_they_are_when_loads_change(batches: Batches) -> None:
    batches.run(2, refuse="1")
    lent = batches.plan
    batches.story.plans("r", partitions=4)
    batches.run()
    assert batches.plan == lent
    batches.story.joins("4@d")
    assert batches.plan == lent


def test_a_lent_task_goes_on_when_its_borrower_is_lost(batches: Batches) -> None:
    own = [p for p, executor in batches.plan.items() if executor == "1"]
    batches.run(2, refuse="1")
    batches.story.dies("2")
    assert {batches.plan[p] for p in own} == {"3"}


def run_of_another(batches: Batches, executors: Collection[str], at_ms: int) -> None:
    """A batch of a query with a task on each executor, which ends then."""
    placements = dict(enumerate(executors))
    runs = {p: events.TaskRun(executor, USUAL_MS, ROWS) for p, executor in placements.items()}
    batches.story.take(events.BatchBegan(at_ms, "r", 0))
    batches.story.take(events.BatchEnded(at_ms, "r", 0, 10, placements, 3, 3, runs=runs))


def test_an_executor_that_runs_another_querys_tasks_does_not_refuse(batches: Batches) -> None:
    batches.story.plans("r", partitions=3)
    batches.story.take(events.BatchBegan(batches.story.now_ms, "r", 0))
    batches.run(4, refuse="1")
    assert not batches.loans(), "the first batch of the other one goes on"
    for _ in range(4):
        run_of_another(batches, "123", batches.story.now_ms + 4_000)
        batches.run(refuse="1")
    assert not batches.loans()
    batches.story.take(events.BatchBegan(batches.story.now_ms, "r", 1))
    batches.run(4, refuse="1")
    assert not batches.loans(), "the batch of the other one goes on"
    run_of_another(batches, "232", batches.story.now_ms)
    batches.run(2, refuse="1")
    assert batches.loans(), "it ran none of them either"


def test_an_executor_refuses_while_no_other_query_runs(batches: Batches) -> None:
    batches.story.plans("r", partitions=3)
    run_of_another(batches, "123", batches.story.now_ms)
    batches.run(2, refuse="1")
    assert batches.loans()
