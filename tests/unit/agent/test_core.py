"""What the agent decides, event by event, without a JVM and without a clock."""

from __future__ import annotations

from mooring.agent.agent_state import AgentState
from mooring.agent.core import next_deadline_ms
from mooring.agent.recovery import recovered
from mooring.model import events
from mooring.model.orders import PublishPlan, SaveTaskLocality
from mooring.records.records import Remembered
from tests.unit.agent.builders import TIMING, Story, running


def test_a_query_is_spread_evenly_over_the_executors() -> None:
    assert running(partitions=8).sizes("q") == [3, 3, 2]


def test_a_row_names_survivors_behind_the_first_choice() -> None:
    for row in running().rows["q"].values():
        assert len(row) == len(set(row)) == 3


def test_executors_that_join_within_the_debounce_make_one_plan() -> None:
    story = running(executors=("1@a",))
    models_before = len(story.saved)
    story.joins("2@b")
    story.after(1_000)
    story.joins("3@c")
    story.after(TIMING.debounce_ms - 1_000)
    assert story.sizes("q") == [2, 2, 2]
    assert len(story.saved) == models_before + 1


def test_a_new_executor_takes_only_the_excess() -> None:
    story = running(partitions=8, executors=("1@a", "2@b"))
    before = story.first_choice("q")
    story.joins("3@c")
    story.after(TIMING.debounce_ms)
    after = story.first_choice("q")
    assert sorted(after.values()).count("3") == 2
    assert sum(before[p] != after[p] for p in before) == 2


def test_tasks_of_a_lost_executor_go_to_the_survivors_at_once_and_evenly() -> None:
    story = running(partitions=9)
    story.dies("1")
    assert story.sizes("q") == [5, 4]
    assert set(story.first_choice("q").values()) == {"2", "3"}


def test_tasks_of_a_lost_executor_stay_on_its_host_when_another_executor_is_there() -> None:
    story = running(partitions=8, executors=("1@a", "2@a", "3@b", "4@b"))
    lost = {partition for partition, executor in story.first_choice("q").items() if executor == "1"}
    story.dies("1")
    assert {story.first_choice("q")[partition] for partition in lost} == {"2"}


def test_an_executor_that_comes_back_on_its_host_gets_its_tasks_back() -> None:
    story = running(partitions=8)
    before, models_before = story.first_choice("q"), len(story.saved)
    story.dies("2")
    story.after(5_000)
    story.joins("9@b")
    assert story.first_choice("q") == {p: "9" if executor == "2" else executor for p, executor in before.items()}
    assert len(story.saved) == models_before, "the job model did not change: only the binding did"


def test_a_processor_is_given_up_after_the_rebind_timeout_and_nothing_else_moves() -> None:
    story = running(partitions=9)
    before = story.first_choice("q")
    story.dies("2")
    story.after(TIMING.rebind_timeout_ms)
    after = story.first_choice("q")
    assert story.sizes("q") == [5, 4]
    assert all(after[p] == before[p] for p in before if before[p] != "2")
    assert len(story.state.fleet.processors) == 2


def test_an_executor_on_another_host_does_not_take_a_processor_over() -> None:
    story = running(partitions=9)
    story.dies("2")
    refuge = story.first_choice("q")
    story.joins("9@elsewhere")
    assert story.first_choice("q") == refuge, "what fell back once stays until there is a new plan"
    assert "9" not in story.first_choice("q").values()
    story.after(TIMING.debounce_ms)
    assert "9" in story.first_choice("q").values()


def test_a_restart_waits_for_the_executors_of_the_last_run() -> None:
    last = running(partitions=6)
    story = Story()
    story.joins("11@a", "12@b")
    story.state = _remembering(story, last)
    story.plans("q", 6)
    assert story.rows == {}, "host c has not come back yet"
    story.joins("13@c")
    assert story.sizes("q") == [2, 2, 2]
    hosts = {"11": "a", "12": "b", "13": "c"}
    then = {p: {"1": "a", "2": "b", "3": "c"}[executor] for p, executor in last.first_choice("q").items()}
    assert {p: hosts[executor] for p, executor in story.first_choice("q").items()} == then


def test_a_restart_does_not_wait_for_ever() -> None:
    story = Story()
    story.joins("11@a", "12@b")
    story.state = _remembering(story, running(partitions=6))
    story.plans("q", 6)
    assert next_deadline_ms(story.state) < TIMING.first_plan_wait_ms
    story.after(int(0.8 * TIMING.first_plan_wait_ms))
    assert story.sizes("q") == [3, 3]


def test_a_restart_finds_its_places_by_location_when_the_processors_are_forgotten() -> None:
    last = running(partitions=6)
    where = {f"q/Partition {p}": {"1": "a", "2": "b", "3": "c"}[x] for p, x in last.first_choice("q").items()}
    story = Story()
    story.joins("23@c", "22@b", "21@a")
    story.state = recovered(story.state, Remembered(task_locality=where), 0)
    story.after(TIMING.debounce_ms)
    story.plans("q", 6)
    hosts = {"21": "a", "22": "b", "23": "c"}
    assert {f"q/Partition {p}": hosts[x] for p, x in story.first_choice("q").items()} == where


def test_a_new_agent_gives_each_executor_the_tasks_that_the_jvm_already_sends_it() -> None:
    # Two executors of one host: by location alone they could be taken for each other.
    last = running(partitions=6, executors=("1@a", "2@a"))
    story = Story()
    story.take(events.PlanInForce(0, 7, last.rows))
    story.joins("2@a", "1@a")
    story.plans("q", 6)
    story.state = _remembering(story, last)
    story.after(1)
    assert story.first_choice("q") == last.first_choice("q")


def test_a_plan_never_has_a_smaller_version_than_the_one_in_force() -> None:
    story = Story()
    story.take(events.PlanInForce(0, 41, {}))
    story.joins("1@a")
    story.after(TIMING.debounce_ms)
    story.plans("q")
    assert min(o.version for o in story.orders if isinstance(o, PublishPlan)) >= 41


def test_queries_are_even_each_and_in_sum() -> None:
    story = running("q1", partitions=8)
    story.plans("q2", partitions=8)
    assert story.sizes("q1") == story.sizes("q2") == [3, 3, 2]
    both = list(story.first_choice("q1").values()) + list(story.first_choice("q2").values())
    assert sorted(both.count(executor) for executor in set(both)) == [5, 5, 6]


def test_a_query_that_ends_leaves_the_others_where_they_are() -> None:
    story = running("q1", partitions=8)
    story.plans("q2", partitions=5)
    before = story.first_choice("q2")
    story.ends("q1")
    assert list(story.rows) == ["q2"]
    assert story.first_choice("q2") == before


def test_the_end_of_an_old_run_does_not_end_the_new_one() -> None:
    story = running("q")
    story.take(events.QueryPlanned(0, "q", "second run", "q", "file:/ck/q", 5, {0: 6}))
    story.ends("q")
    assert "q" in story.state.fleet.queries


def test_two_queries_of_one_name_have_tasks_of_their_own() -> None:
    story = running("11111111-q")
    story.plans("22222222-q", 6, name="11111111-q")
    labels = {query.label for query in story.state.fleet.queries.values()}
    assert len(labels) == 2


def test_a_query_without_a_name_is_called_by_its_id() -> None:
    story = running(executors=("1@a",))
    story.plans("0123456789", name="")
    assert story.state.fleet.queries["0123456789"].label == "01234567"


def test_where_tasks_ran_is_kept_when_it_changed_and_only_then() -> None:
    story = running(partitions=3)
    ended = events.BatchEnded(5, "q", 0, 800, dict(story.first_choice("q")), 3, 3)
    story.take(ended)
    kept = [order for order in story.orders if isinstance(order, SaveTaskLocality)]
    assert kept[-1].changed == {
        f"q/Partition {p}": {"1": "a", "2": "b", "3": "c"}[x] for p, x in story.first_choice("q").items()
    }
    assert story.take(ended) == []


def test_nothing_is_ordered_while_nothing_happens() -> None:
    story = running()
    assert [story.after(1_000) for _ in range(100)] == [[]] * 100


def _remembering(story: Story, last: Story) -> AgentState:
    return recovered(story.state, Remembered(last.saved[-1].model), 0)
