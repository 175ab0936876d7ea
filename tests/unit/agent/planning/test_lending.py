"""Tasks of executors that serve them badly run elsewhere, and return when that is better again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import pairwise

import pytest

from mooring.agent.counters import Counters
from mooring.agent.planning.lending import FIRST_TRIAL_MS, FORGIVEN_AFTER_MS, LAST_TRIAL_MS
from mooring.agent.planning.rows import plan_rows
from mooring.agent.planning.staged_moves import is_settled
from mooring.agent.status import status_of
from mooring.model import events
from mooring.model.event_json import read_event
from mooring.model.orders import LogLine
from mooring.records.operator_overrides import OperatorOverrides, SavedLoan
from tests.unit.agent.builders import Story, running
from tests.unit.agent.moving import a_new_agent, kept_overrides

USUAL_MS, ROWS = 1_000, 100


class Batches:
    """Batches of a query, whose tasks run where their rows say; a test says which of them go otherwise."""

    def __init__(self, story: Story) -> None:
        self.story, self.batch = story, -1

    @property
    def plan(self) -> dict[int, str]:
        return self.story.first_choice("q")

    def run(
        self,
        times: int = 1,
        slow_on: Collection[str] = (),
        factor: float = 5.0,
        refuse: Collection[str] = (),
        outrun: Collection[str] = (),
        fail: Collection[str] = (),
        rows: int = ROWS,
        milliseconds: Callable[[int, str], int] | None = None,
        outvoted: Collection[int] = (),
    ) -> None:
        for _ in range(times):
            self.batch += 1
            self.story.now_ms += 5_000
            wanted = self.plan
            leave = {*refuse, *outrun, *fail}
            other = next(id for id in self.story.state.fleet.executors if id not in leave)
            placements = {
                p: other if executor in leave or p in outvoted else executor for p, executor in wanted.items()
            }
            runs = {
                p: events.TaskRun(
                    # Where it was sent after it had failed; what a coalesce puts with tasks of others has no place.
                    "" if p in outvoted else other if wanted[p] in fail else wanted[p],
                    milliseconds(p, at) if milliseconds else int(USUAL_MS * (factor if at in slow_on else 1)),
                    rows,
                    wanted[p] in outrun,
                    frozenset({wanted[p]} & set(fail)),
                )
                for p, at in placements.items()
            }
            as_planned = sum(placements[p] == wanted[p] for p in wanted)
            self.story.take(events.BatchBegan(self.story.now_ms, "q", self.batch))
            self.story.take(
                events.BatchEnded(
                    self.story.now_ms,
                    "q",
                    self.batch,
                    4_000,
                    placements,
                    len(wanted),
                    as_planned,
                    runs=runs,
                    not_placed=frozenset(outvoted),
                )
            )

    def loans(self) -> dict[str, str]:
        return {executor: loan.reason for (_, executor), loan in self.story.state.fleet.lending.loans.items()}

    def said(self) -> list[str]:
        return [order.message for order in self.story.orders if isinstance(order, LogLine)]


@pytest.fixture
def batches() -> Batches:
    """Six usual ones have run."""
    batches = Batches(running(partitions=12))
    batches.run(6)
    assert not batches.loans()
    return batches


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


def test_a_trial_may_be_slow_while_it_fetches_its_state(batches: Batches) -> None:
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run()
    batches.run(slow_on="1")
    assert batches.loans(), "its next batch tells"
    batches.run()
    assert not batches.loans()


@pytest.mark.parametrize(("outrun", "is_over"), [(1, True), (2, True), (3, False)])
def test_a_trial_may_be_outrun_in_two_batches_while_it_fetches_its_state(
    batches: Batches, outrun: int, is_over: bool
) -> None:
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run()
    batches.run(outrun, outrun="1")
    batches.run(2)
    assert bool(batches.loans()) is not is_over


def test_a_trial_that_is_slow_in_its_next_batch_fails(batches: Batches) -> None:
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run(2)
    batches.run(slow_on="1")
    assert batches.loans() and "1" not in batches.plan.values()


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
    for _ in range(2):
        assert not batches.loans()
        wanted = batches.plan
        placements = {**wanted, own[0]: "2", own[1]: "3"}
        runs = {p: events.TaskRun(wanted[p], USUAL_MS, ROWS, p == own[0]) for p in wanted}
        batches.story.take(events.BatchEnded(0, "q", 9, 10, placements, 12, 10, runs=runs))
    assert batches.loans()


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


def test_one_task_tries_it_and_the_others_return_after_it(batches: Batches) -> None:
    before = batches.plan
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run()
    tries = [p for p, executor in before.items() if executor == "1" and batches.plan[p] == "1"]
    assert len(tries) == 1
    batches.run(2)
    assert batches.plan == before and not batches.loans()
    assert batches.said()[-1] == "tasks of q return to executor 1 on a"


def test_a_trial_that_fails_is_made_again_after_twice_the_time(batches: Batches) -> None:
    batches.run(2, refuse="1")
    failed = []
    for _ in range(100):
        tried = "1" in batches.plan.values()
        batches.run(refuse="1")
        if tried:
            failed.append(batches.story.now_ms)
    assert batches.loans() and len(batches.said()) == 1, "it is said once"
    pauses = [after - before for before, after in pairwise(failed)]
    assert pauses[0] >= 2 * FIRST_TRIAL_MS and pauses == sorted(pauses), pauses


def test_tasks_that_are_as_slow_elsewhere_return(batches: Batches) -> None:
    heavy = [p for p, executor in batches.plan.items() if executor == "1"]

    def as_slow(p: int, at: str) -> int:
        return 5 * USUAL_MS if p in heavy else USUAL_MS

    batches.run(3, milliseconds=as_slow)
    assert batches.loans()
    batches.run(3, milliseconds=as_slow)
    assert not batches.loans()
    batches.run(30, milliseconds=as_slow)
    assert len(batches.said()) == 2, "that is usual from now on"


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


def test_another_task_tries_the_executor_when_the_trial_has_got_another_processor(batches: Batches) -> None:
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run()
    fleet = batches.story.state.fleet
    trial = fleet.lending.loans["q", "1"].trial
    owner = fleet.processor_of_task()
    name = fleet.queries["q"].task_name(trial)
    other = next(id for id, one in fleet.processors.items() if one.executor == "2")
    held = {id: dict(container.tasks) for id, container in fleet.model.containers.items()}
    held[other][name] = held[owner[name]].pop(name)
    containers = {
        id: replace(container, tasks=held[id]) if held[id] != container.tasks else container
        for id, container in fleet.model.containers.items()
    }
    regrouped = replace(fleet, model=replace(fleet.model, containers=containers))
    batches.story.state = replace(batches.story.state, fleet=regrouped)
    batches.run()
    loan = batches.story.state.fleet.lending.loans["q", "1"]
    assert loan.trial not in (-1, trial) and batches.plan[loan.trial] == "1" and batches.plan[trial] == "2"
    batches.run(3)
    assert not batches.loans()


def test_all_tasks_try_the_executor_where_the_one_is_outvoted_above_a_coalesce(batches: Batches) -> None:
    before = batches.plan
    own = [p for p, executor in before.items() if executor == "1"]
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run()
    trial = batches.story.state.fleet.lending.loans["q", "1"].trial
    batches.run(4, outvoted={trial})
    assert batches.loans(), "a plan may wait for executors that do not answer"
    batches.story.now_ms += 60_000
    batches.run(outvoted={trial})
    assert not batches.loans() and batches.plan == before
    batches.run(2, refuse="1")
    assert "tries it again in 120 s" in batches.said()[-1]
    batches.story.now_ms += 2 * FIRST_TRIAL_MS
    batches.run(outvoted=own)
    assert not batches.loans(), "there is none that could try it"


def test_a_task_tries_the_executor_that_the_plan_can_place(batches: Batches) -> None:
    first = min(p for p, executor in batches.plan.items() if executor == "1")
    batches.run(2, refuse="1")
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run(3, outvoted={first})
    assert not batches.loans()


def test_lent_tasks_stay_where_they_are_while_one_tries_the_executor(batches: Batches) -> None:
    own = [p for p, executor in batches.plan.items() if executor == "1"]
    batches.run(2, refuse="1")
    lent = {p: batches.plan[p] for p in own}
    batches.story.now_ms += FIRST_TRIAL_MS
    batches.run()
    (trial,) = (p for p in own if batches.plan[p] == "1")
    rest = {p: executor for p, executor in lent.items() if p != trial}
    assert {p: batches.plan[p] for p in rest} == rest
    batches.run(refuse="1")
    assert batches.plan[trial] != "1" and {p: batches.plan[p] for p in rest} == rest


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


def with_a_new_agent(batches: Batches) -> Batches:
    word = kept_overrides(batches.story)
    assert word is not None and OperatorOverrides.from_json(word.to_json()) == word
    plan = batches.plan
    new = Batches(a_new_agent(batches.story, OperatorOverrides.from_json(word.to_json())).story)
    new.batch = batches.batch
    new.story.after(10_000)
    assert new.plan == plan
    return new


def test_a_new_agent_takes_over_what_is_lent(batches: Batches) -> None:
    before = batches.plan
    batches.run(3, slow_on="1")
    reasons, lent = batches.loans(), batches.plan
    new = with_a_new_agent(batches)
    assert new.loans() == reasons and reasons
    new.story.now_ms += FIRST_TRIAL_MS
    new.run(4)
    assert new.plan == lent, "it does not know yet what is usual"
    new.run(2)
    assert [p for p in new.plan if new.plan[p] == "1"] == [min(p for p in before if before[p] == "1")]
    new.run(2, slow_on="1")
    assert new.loans() and "1" not in new.plan.values(), "the trial failed"
    new.story.now_ms += 4 * FIRST_TRIAL_MS
    new.run(4)
    assert not new.loans() and new.plan == before
    word = kept_overrides(new.story)
    assert word is not None and not word.loans


def test_what_a_new_agent_takes_over_of_the_gone_is_forgotten(batches: Batches) -> None:
    word = OperatorOverrides(loans={("q", "77"): SavedLoan("slow"), ("q", "1"): SavedLoan("slow", trial_at_ms=10**15)})
    new = Batches(a_new_agent(batches.story, word).story)
    new.story.after(10_000)
    new.run()
    assert new.loans() == {"1": "slow"} and not new.said()


def test_loans_are_read_from_what_other_versions_have_kept() -> None:
    newer = {"application": "a", "loans": [{"query": "q", "executor": "1", "colour": "red"}], "colour": "red"}
    assert OperatorOverrides.from_json(json.dumps(newer)).loans == {("q", "1"): SavedLoan()}
    assert not OperatorOverrides.from_json('{"application": "a"}').loans
    for damaged in ({"query": "q"}, {"query": "q", "executor": "1", "times": "2"}):
        with pytest.raises(ValueError, match=r"expected a number|executor"):
            OperatorOverrides.from_json(json.dumps({"application": "a", "loans": [damaged]}))


def test_lent_tasks_stay_where_the_agent_before_had_them(batches: Batches) -> None:
    own = [p for p, executor in batches.plan.items() if executor == "1"]
    batches.run(2, refuse="1")
    other = {"2": "3", "3": "2"}
    wanted = {("q", p): other[batches.plan[p]] for p in own}
    rows = plan_rows(replace(batches.story.state.fleet, wanted_by_jvm=wanted), {})
    assert {("q", p): rows["q"][p][0] for p in own} == wanted


def test_loans_that_lie_far_apart_do_not_grow(batches: Batches) -> None:
    def one_loan() -> str:
        batches.run(2, refuse="1")
        assert batches.loans()
        while batches.loans():
            batches.story.now_ms += 30_000
            batches.run()
        return batches.said()[-2]

    assert [one_loan()[-5:] for _ in range(3)] == [" 60 s", "120 s", "240 s"]
    for _ in range(2):
        batches.story.now_ms += FORGIVEN_AFTER_MS
        batches.run()
    assert one_loan().endswith("in 120 s"), "one hour each halves it"
    for _ in range(6):
        batches.story.now_ms += FORGIVEN_AFTER_MS
        batches.run(refuse="1")
        batches.run()
    assert one_loan().endswith("in 60 s"), "it does not fall below, and one batch says nothing"


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


def test_a_loan_of_days_is_forgiven_like_one_of_hours(batches: Batches) -> None:
    batches.run(2, refuse="1")
    for _ in range(60):
        batches.story.now_ms += LAST_TRIAL_MS
        batches.run(2, refuse="1")
    while batches.loans():
        batches.story.now_ms += LAST_TRIAL_MS
        batches.run(2)
    for _ in range(6):
        batches.story.now_ms += FORGIVEN_AFTER_MS
        batches.run()
    batches.run(2, refuse="1")
    assert batches.said()[-1].endswith("in 60 s")
