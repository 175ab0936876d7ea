"""Moving a processor to another executor, and restarting it: what the core decides, and what it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent import binding
from mooring.agent.core import Mind, absorb
from mooring.agent.fleet import Fleet
from mooring.agent.moves import CATCH_UP_MS, IDLE_MS, Patience
from mooring.agent.word import OperatorsWord, SaveWord
from mooring.model import events
from mooring.model.orders import RestartExecutor
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.desks import Desks

DONE = ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]
FAILED = ["ACCEPTED", "IN_PROGRESS", "FAILED"]
PATIENCE = Patience()
FOUR = ("1@a", "2@b", "3@c", "4@d")


def tasks_of(desks: Desks, processor: str) -> set[int]:
    actives = desks.story.mind.fleet.model.containers[processor].actives
    return {int(name.rpartition(" ")[2]) for name in actives}


def where(desks: Desks, processor: str) -> set[str]:
    """The executors that the JVM prefers for the processor's tasks."""
    chosen = desks.story.first_choice("q")
    return {chosen[partition] for partition in tasks_of(desks, processor)}


def restarts(desks: Desks) -> list[str]:
    return [order.executor for order in desks.story.orders if isinstance(order, RestartExecutor)]


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def desks(request: pytest.FixtureRequest) -> Desks:
    """Four executors; with standbys, two tasks and copies each."""
    desks = Desks(running(partitions=4, executors=FOUR, factor=request.param))
    desks.warms_up()
    return desks


def free_host(desks: Desks, processor: str = "0") -> str:
    """A host, not the processor's own, where no copy of its tasks is; and that of another processor."""
    fleet = desks.story.mind.fleet
    actives = fleet.model.containers[processor].actives
    held = {
        fleet.processors[id].location
        for id, container in fleet.model.containers.items()
        if any(task.standby_of in actives for task in container.tasks.values())
    }
    return min(set("bcd") - held)


def executor_at(desks: Desks, host: str) -> str:
    return next(id for id, executor in desks.story.mind.fleet.executors.items() if executor.location == host)


def test_a_move_warms_up_then_switches_then_is_done_when_a_batch_has_run_there(desks: Desks) -> None:
    host = free_host(desks)
    there, tasks = executor_at(desks, host), tasks_of(desks, "0")
    asked = desks.places("0", host)
    desks.is_read()
    assert desks.changes(asked) == DONE[:2]
    assert where(desks, "0") == {"1"}, "the source goes on"
    assert all(there in desks.story.copies["q"][partition] for partition in tasks)
    desks.warms_up(behind=2)
    assert where(desks, "0") == {"1"}, "what is two versions behind is cold"
    desks.warms_up(behind=1)
    assert where(desks, "0") == {"1"}, "it may be seen caught up soon"
    desks.after(CATCH_UP_MS)
    assert where(desks, "0") == {there} and desks.changes(asked) == DONE[:2]
    assert all(desks.story.rows["q"][partition][1] == "1" for partition in tasks), "the source is the first refuge"
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE and f"executor {there} at {host}" in desks.message(asked)
    assert tasks_of(desks, "0") == tasks, "no task leaves its processor"
    assert not desks.story.mind.fleet.moves and asked.uuid not in desks.requests


def test_a_move_is_not_undone_by_the_next_plans(desks: Desks) -> None:
    host = free_host(desks)
    desks.places("0", host)
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    tasks = tasks_of(desks, "0")
    desks.story.joins("9@e")
    desks.after(TIMING.debounce_ms)
    for _ in range(3):
        desks.warms_up()
        desks.after(TIMING.rebind_timeout_ms)
    assert where(desks, "0") <= {executor_at(desks, host)} and tasks_of(desks, "0") <= tasks
    assert "1" not in desks.story.first_choice("q").values(), "the executor that was left is spare"


def test_a_spare_executor_holds_copies_and_gets_tasks_when_somebody_asks(desks: Desks) -> None:
    desks.places("0", free_host(desks))
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    back = desks.places("0", "a", at_ms=2)
    desks.is_read()
    if desks.changes(back) == ["BAD_REQUEST"]:  # with two copies, the new ones are where the state was
        assert "standby" in desks.message(back)
        back = desks.places("0", STANDBY, at_ms=3)
        desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(back) == DONE and where(desks, "0") == {"1"}
    assert len(desks.story.mind.fleet.processors) == 5 - 1 or desks.story.mind.fleet.replication_factor == 1
    assert sum(processor.is_spare for processor in desks.story.mind.fleet.processors.values()) <= 1


def test_a_spare_executor_takes_tasks_when_nobody_else_is_left() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b")))
    desks.places("0", "b")
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    assert set(desks.story.first_choice("q").values()) == {"2"}
    desks.story.dies("2")
    assert set(desks.story.first_choice("q").values()) == {"1"}, "at once, as the rows say"
    desks.after(TIMING.rebind_timeout_ms)
    assert set(desks.story.first_choice("q").values()) == {"1"}
    assert tasks_of(desks, next(iter(desks.story.mind.fleet.processors))) == {0, 1, 2, 3}


def test_processors_of_one_executor_come_back_together() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    desks.places("0", "b")
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    before = desks.story.mind.fleet.processor_of_task()
    desks.story.dies("2")
    desks.story.joins("7@b")
    assert {desks.story.mind.fleet.processors[id].executor for id in ("0", "1")} == {"7"}
    desks.after(TIMING.rebind_timeout_ms)
    assert desks.story.mind.fleet.processor_of_task() == before


def test_a_destination_without_an_executor_is_waited_for_until_the_expiry(desks: Desks) -> None:
    before = desks.story.rows
    asked = desks.places("0", "e", expiry_ms=5_000)
    desks.is_read()
    desks.after(4_000)
    assert desks.changes(asked) == DONE[:2]
    desks.after(1_000)
    assert desks.changes(asked) == FAILED and "no executor was there for e within 5000 ms" in desks.message(asked)
    assert desks.story.rows == before


def test_an_executor_that_comes_in_time_is_taken(desks: Desks) -> None:
    asked = desks.places("0", "e", expiry_ms=5_000)
    desks.is_read()
    desks.story.joins("9@e")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE and where(desks, "0") == {"9"}


def test_a_destination_that_dies_while_it_warms_up_leaves_the_source_untouched(desks: Desks) -> None:
    host = free_host(desks)
    asked = desks.places("0", host)
    desks.is_read()
    desks.story.dies(executor_at(desks, host))
    desks.after()
    assert desks.changes(asked) == FAILED and "was not touched" in desks.message(asked)
    assert where(desks, "0") == {"1"} and not desks.story.mind.fleet.moves


def test_a_destination_that_dies_after_the_switch_sends_the_tasks_back_to_the_source() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    asked = desks.places("0", "b")
    desks.is_read()
    desks.warms_up()
    assert where(desks, "0") == {"2"}
    desks.story.dies("2")
    desks.after()
    assert desks.changes(asked) == FAILED and "it is back on executor 1" in desks.message(asked)
    assert where(desks, "0") == {"1"} and desks.story.mind.fleet.processors["0"].location == "a"


def test_when_the_source_is_lost_as_well_the_tasks_run_on_any_host() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    asked = desks.places("0", "b")
    desks.is_read()
    desks.warms_up()
    desks.story.dies("1", "2")
    desks.after()
    assert desks.changes(asked) == FAILED and "any host" in desks.message(asked)
    assert where(desks, "0") <= {"3", "4"}


def test_a_source_that_dies_while_its_tasks_warm_up_elsewhere_lets_them_run_there_at_once() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    asked = desks.places("0", "b")
    desks.is_read()
    desks.story.dies("1")
    desks.after()
    assert where(desks, "0") == {"2"}
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE


def test_copies_that_do_not_come_are_a_failure_and_the_source_is_not_touched(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.after(PATIENCE.warm_up_ms)
    assert desks.changes(asked) == FAILED and "copies were not there" in desks.message(asked)
    assert where(desks, "0") == {"1"}


def test_a_query_that_stands_still_does_not_hold_the_request_up(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.warms_up()
    assert desks.changes(asked) == DONE[:2]
    desks.after(IDLE_MS)
    assert desks.changes(asked) == DONE


def test_any_host_is_the_one_with_the_least_to_do_and_without_copies(desks: Desks) -> None:
    desks.story.joins("9@e")
    desks.after(TIMING.debounce_ms)
    asked = desks.places("0", ANY_HOST)
    desks.is_read()
    desks.warms_up()
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE and where(desks, "0") == {"9"}


def test_two_moves_at_once_go_to_two_executors() -> None:
    desks = Desks(running(partitions=8, executors=FOUR))
    first, second = desks.places("0", ANY_HOST), desks.places("1", ANY_HOST)
    desks.is_read()
    moves = desks.story.mind.fleet.moves
    assert len({move.executor for move in moves.values()}) == 2
    desks.warms_up()
    desks.after()
    desks.runs_a_batch()
    assert desks.changes(first) == desks.changes(second) == DONE


@pytest.mark.parametrize("destination", [LAST_SEEN, "a"])
def test_a_restart_ends_the_executor_and_is_done_when_another_has_its_place(desks: Desks, destination: str) -> None:
    asked = desks.places("0", destination)
    desks.is_read()
    assert restarts(desks) == ["1"] and desks.changes(asked) == DONE[:2]
    desks.story.dies("1")
    desks.after()
    assert desks.changes(asked) == DONE[:2]
    desks.story.joins("7@a")
    desks.after()
    assert desks.changes(asked) == DONE and "executor 7 at a" in desks.message(asked)
    assert restarts(desks) == ["1"]


def test_an_executor_that_does_not_end_is_a_failure_and_runs_on(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=30_000)
    desks.is_read()
    desks.after(33_000)
    assert desks.changes(asked) == FAILED and "it runs on" in desks.message(asked)


def test_an_executor_that_does_not_come_back_is_a_failure(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=30_000)
    desks.is_read()
    desks.story.dies("1")
    desks.after(30_000)
    assert desks.changes(asked) == FAILED and "its tasks run elsewhere" in desks.message(asked)


def test_standby_takes_over_where_the_copies_are_and_the_old_place_holds_them() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    desks.warms_up()
    asked = desks.places("0", STANDBY)
    desks.is_read()
    desks.after()
    assert where(desks, "0") == {"2"}, "the copies are warm: it switches at once"
    assert all(desks.story.copies["q"][partition] == ("1",) for partition in tasks_of(desks, "0"))
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE
    desks.check()


@pytest.mark.parametrize(
    ("factor", "destination", "words"),
    [
        (1, STANDBY, "has no standby"),
        (1, "no host", "expected a host, ANY_HOST, STANDBY or LAST_SEEN; nearest: "),
        (2, "b", "no two copies of a task at one location; STANDBY takes over where copies are"),
    ],
)
def test_a_destination_that_can_not_be_is_a_bad_request(factor: int, destination: str, words: str) -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=factor))
    before = desks.story.mind.fleet
    asked = desks.places("0", destination)
    desks.is_read()
    assert desks.changes(asked) == ["BAD_REQUEST"] and words in desks.message(asked)
    assert desks.story.mind.fleet == before


def test_actions_of_processors_that_hold_copies_of_each_other_wait() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    desks.warms_up()
    first, second = desks.places("0", LAST_SEEN, at_ms=1), desks.places("1", LAST_SEEN, at_ms=2)
    desks.is_read()
    assert desks.changes(first) == DONE[:2] and desks.changes(second) == DONE[:1]


def kept_word(story: Story) -> OperatorsWord | None:
    return next((order.word for order in reversed(story.orders) if isinstance(order, SaveWord)), None)


def a_new_agent(story: Story, word: OperatorsWord | None = None) -> Desks:
    """One that is told what is true now, with what the last one has kept, unless another one has kept a later word."""
    old = story.mind
    word = word or kept_word(story) or OperatorsWord()
    fleet = Fleet(timing=TIMING, replication_factor=old.fleet.replication_factor, application=old.fleet.application)
    mind = Mind(fleet=fleet)
    wanted = {(q, p): row[0] for q, rows in story.rows.items() for p, row in rows.items()}
    mind = absorb(mind, events.PlanInForce(story.now_ms, old.obeyed_version, wanted, old.obeyed_version))
    for executor in old.fleet.executors.values():
        mind = absorb(mind, events.ExecutorRegistered(story.now_ms, executor.id, executor.location, 1))
    for query in old.fleet.queries.values():
        planned = events.QueryPlanned(0, query.id, query.run, query.name, query.checkpoint, 0, query.partitions)
        mind = absorb(mind, planned)
    start = binding.remember(mind.fleet, old.fleet.model, old.fleet.task_locality, story.now_ms, word)
    new = Story(mind=Mind(fleet=start, obeyed_version=mind.obeyed_version, saved_word=word), now_ms=story.now_ms)
    new.mind = replace(new.mind, desk=replace(new.mind.desk, begun=word.under_way, done_with=word.done))
    for order in story.orders:
        if isinstance(order, RestartExecutor):  # as the JVM tells every agent
            new.take(events.ExecutorRestarting(story.now_ms, order.request, order.executor))
    new.after(0)
    return Desks(new)


@pytest.mark.parametrize("when", ["warming up", "switched"])
def test_a_new_agent_goes_on_with_a_move(when: str) -> None:
    old = Desks(running(partitions=4, executors=FOUR))
    asked = old.places("0", ANY_HOST)
    old.is_read()
    to = old.story.mind.fleet.moves["0"].executor
    if when == "switched":
        old.warms_up()
    new = a_new_agent(old.story)
    new.requests, new.responses = dict(old.requests), dict(old.responses)
    new.is_read()
    new.warms_up()
    new.after()
    assert where(new, "0") == {to}
    new.runs_a_batch()
    assert new.changes(asked) == DONE[1:]


@pytest.mark.parametrize("is_back", [False, True])
def test_a_new_agent_does_not_end_another_executor_for_a_restart(is_back: bool) -> None:
    old = Desks(running(partitions=4, executors=FOUR))
    asked = old.places("0", LAST_SEEN)
    old.is_read()
    old.story.dies("1")
    if is_back:
        old.story.joins("7@a")  # the last word is decided, and not written when the agent dies
    new = a_new_agent(old.story)
    new.requests, new.responses = {asked.uuid: asked}, dict(old.responses)
    new.is_read()
    if not is_back:
        new.story.joins("7@a")
        new.after()
    assert new.changes(asked)[-1] == "SUCCEEDED" and set(restarts(new)) <= {"1"}
    assert asked.uuid not in new.requests


def test_a_new_agent_leaves_processors_where_a_move_has_brought_them() -> None:
    old = Desks(running(partitions=4, executors=FOUR))
    old.places("0", "b")
    old.is_read()
    old.warms_up()
    old.runs_a_batch()
    new = a_new_agent(old.story)
    assert new.story.mind.fleet.executor_of == old.story.mind.fleet.executor_of
    new.after(TIMING.rebind_timeout_ms)
    assert new.story.mind.fleet.processor_of_task() == old.story.mind.fleet.processor_of_task()
    assert new.story.mind.fleet.executor_of == old.story.mind.fleet.executor_of


def test_a_request_is_done_once_though_two_agents_die_over_it() -> None:
    old = Desks(running(partitions=4, executors=FOUR))
    asked = old.places("0", "b")
    old.is_read()
    old.warms_up()
    first = a_new_agent(old.story)  # it dies before it has read the request
    first.after(TIMING.debounce_ms)
    second = a_new_agent(old.story, kept_word(first.story))
    second.requests, second.responses = {asked.uuid: asked}, dict(old.responses)
    second.is_read()
    second.warms_up()
    second.after()
    second.runs_a_batch()
    assert second.changes(asked)[-1] == "SUCCEEDED" and not restarts(second) and where(second, "0") == {"2"}


def test_when_agent_and_destination_die_after_the_switch_the_processor_goes_back() -> None:
    old = Desks(running(partitions=4, executors=FOUR))
    asked = old.places("0", "b")
    old.is_read()
    old.warms_up()
    old.story.mind = replace(
        old.story.mind,
        fleet=replace(
            old.story.mind.fleet,
            executors={id: e for id, e in old.story.mind.fleet.executors.items() if id != "2"},
        ),
    )  # nobody was there to hear of it
    new = a_new_agent(old.story)
    new.requests, new.responses = {asked.uuid: asked}, dict(old.responses)
    new.is_read()
    new.after(TIMING.first_plan_wait_ms)
    new.after()
    assert new.changes(asked)[-1] == "FAILED" and "it is back on executor 1" in new.message(asked)
    assert new.story.mind.fleet.processors["0"].executor == "1"


def test_a_batch_that_was_under_way_at_the_switch_is_no_failure_when_the_next_one_is_far_away(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    ran = desks.story.first_choice("q")
    desks.warms_up()
    desks.story.now_ms += 100
    desks.carry_out(lambda: desks.story.take(events.BatchEnded(desks.story.now_ms, "q", 7, 500, ran, 0, 0, 0)))
    desks.after(IDLE_MS)
    assert desks.changes(asked) == DONE[:2]
    desks.after(PATIENCE.switch_ms)
    assert desks.changes(asked) == DONE


def test_a_batch_that_begins_under_the_plan_and_runs_elsewhere_is_a_failure(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    ran = desks.story.first_choice("q")
    desks.warms_up()
    for batch in range(70):
        desks.story.now_ms += 1_000
        ended = events.BatchEnded(desks.story.now_ms, "q", batch, 500, ran, 0, 0, 0)
        desks.carry_out(lambda ended=ended: desks.story.take(ended))  # type: ignore[misc]
    assert desks.changes(asked) == FAILED and "ran elsewhere still" in desks.message(asked)
    assert where(desks, "0") == {"1"}


def test_nobody_moves_to_an_executor_that_is_to_end() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    restart, move = desks.places("1", LAST_SEEN, at_ms=1), desks.places("0", "b", at_ms=2)
    desks.is_read()
    assert restarts(desks) == ["2"] and not desks.story.mind.fleet.moves
    desks.story.dies("2")
    desks.story.joins("7@b")
    desks.after(TIMING.debounce_ms)
    desks.warms_up()
    desks.runs_a_batch()
    assert desks.changes(restart) == desks.changes(move) == DONE and where(desks, "0") == {"7"}


def test_an_executor_to_which_somebody_is_on_the_way_is_not_ended_before_that_is_done() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    move, restart = desks.places("0", "b", at_ms=1), desks.places("1", LAST_SEEN, at_ms=2)
    desks.is_read()
    assert not restarts(desks)
    desks.warms_up()
    desks.runs_a_batch()
    desks.after()
    assert desks.changes(move) == DONE and restarts(desks) == ["2"] and desks.changes(restart) == DONE[:2]


def test_the_jvm_sends_the_tasks_where_they_warm_up_when_the_source_is_lost() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    desks.places("0", "d")
    desks.is_read()
    assert {desks.story.rows["q"][partition][:2] for partition in tasks_of(desks, "0")} == {("1", "4")}


def test_a_restart_of_the_application_undoes_no_move() -> None:
    old = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    old.places("0", "b")
    old.is_read()
    old.warms_up()
    old.runs_a_batch()
    fleet, word = old.story.mind.fleet, old.story.mind.saved_word
    mind = Mind(fleet=Fleet(timing=TIMING))
    for executor in ("1@a", "0@b", "2@c"):  # ids mean nothing from one application to the next
        id, host = executor.split("@")
        mind = absorb(mind, events.ExecutorRegistered(0, id, host, 1))
    kept = OperatorsWord(spare=word.spare)
    start = binding.remember(mind.fleet, fleet.model, fleet.task_locality, 0, kept, word.carriers)
    new = Story(mind=Mind(fleet=start))
    new.plans("q", 4)
    assert new.mind.fleet.processor_of_task() == fleet.processor_of_task()
    assert {new.mind.fleet.processors[id].executor for id in ("0", "1")} == {"0"}
    assert "1" not in new.first_choice("q").values()


def test_an_expiry_is_also_for_how_long_the_jvm_tries_to_end_an_executor(desks: Desks) -> None:
    asked = desks.places("0", LAST_SEEN, expiry_ms=10_000)
    desks.is_read()
    (order,) = (order for order in desks.story.orders if isinstance(order, RestartExecutor))
    assert order.wait_ms == 10_000
    desks.after(10_000)
    assert desks.changes(asked) == DONE[:2]
    desks.after(3_000)
    assert desks.changes(asked) == FAILED


def test_a_successor_that_comes_before_the_executor_has_gone_takes_its_processors() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b", "3@c")))
    desks.places("0", "b", at_ms=1)
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    restart = desks.places("1", LAST_SEEN, at_ms=2)
    desks.is_read()
    (order,) = (order for order in desks.story.orders if isinstance(order, RestartExecutor))
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, order.request, order.executor))
    before = desks.story.mind.fleet.processor_of_task()
    desks.story.joins("7@b")
    desks.story.dies("2")
    desks.after(TIMING.rebind_timeout_ms)
    assert {desks.story.mind.fleet.processors[id].executor for id in ("0", "1")} == {"7"}
    assert desks.changes(restart) == DONE and desks.story.mind.fleet.processor_of_task() == before
