"""One task tries the executor again, and the others return after it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from mooring.agent.planning.lending import FIRST_TRIAL_MS, FORGIVEN_AFTER_MS, LAST_TRIAL_MS
from tests.unit.agent.planning.lent_tasks import USUAL_MS, Batches, after_six_usual_batches


@pytest.fixture
def batches() -> Batches:
    return after_six_usual_batches()


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
