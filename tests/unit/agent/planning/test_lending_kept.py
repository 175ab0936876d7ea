"""A new agent knows which tasks are lent."""

from __future__ import annotations

import json

import pytest

from mooring.agent.planning.lending import FIRST_TRIAL_MS
from mooring.agent.planning.rows import plan_rows
from mooring.records.operator_overrides import OperatorOverrides, SavedLoan
from tests.unit.agent.moving import a_new_agent, kept_overrides
from tests.unit.agent.planning.lent_tasks import Batches, after_six_usual_batches


@pytest.fixture
def batches() -> Batches:
    return after_six_usual_batches()


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
    wanted = {p: (other[batches.plan[p]],) for p in own}
    rows = plan_rows(batches.story.state.fleet, {"q": wanted})
    assert {p: rows["q"][p][:1] for p in own} == wanted
