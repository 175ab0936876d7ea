"""Moving a processor to another executor: what the core decides, and what it answers."""

from __future__ import annotations

import pytest

from mooring.agent.planning.staged_moves import IDLE_MS
from mooring.agent.requests.move import CATCH_UP_MS, TROUBLE_MS
from mooring.agent.requests.phase import RequestTimeouts
from mooring.model import events
from mooring.placement import ANY_HOST, STANDBY
from tests.unit.agent.builders import TIMING, measured, running
from tests.unit.agent.moving import (
    DONE,
    FAILED,
    FOUR,
    executor_at,
    free_host,
    has_moved,
    tasks_of,
    warm_on_four,
    where,
)
from tests.unit.agent.queues import Queues

REQUEST_TIMEOUTS = RequestTimeouts()


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def queues(request: pytest.FixtureRequest) -> Queues:
    return warm_on_four(request.param)


def test_an_executor_that_gets_no_tasks_is_no_destination(queues: Queues) -> None:
    host = free_host(queues)
    there = executor_at(queues, host)
    queues.story.take(events.OffersWithheld(queues.story.now_ms, {there: "Spark has excluded it after failures"}))
    asked = queues.places("0", host)
    queues.is_read()
    assert where(queues, "0") == {"1"} and there not in queues.story.state.fleet.ongoing.moves
    queues.after(REQUEST_TIMEOUTS.reserve_ms)
    assert queues.changes(asked) == FAILED
    assert f"executor {there} on {host} gets no tasks: Spark has excluded it" in queues.message(asked)


def test_a_move_warms_up_then_switches_then_is_done_when_a_batch_has_run_there(queues: Queues) -> None:
    host = free_host(queues)
    there, tasks = executor_at(queues, host), tasks_of(queues, "0")
    asked = queues.places("0", host)
    queues.is_read()
    assert queues.changes(asked) == DONE[:2]
    assert where(queues, "0") == {"1"}, "the source goes on"
    assert all(there in queues.story.copies["q"][partition] for partition in tasks)
    queues.warms_up(behind=2)
    assert where(queues, "0") == {"1"}, "what is two versions behind is cold"
    queues.warms_up(behind=1)
    assert where(queues, "0") == {"1"}, "it may be seen caught up soon"
    queues.after(CATCH_UP_MS)
    assert where(queues, "0") == {there} and queues.changes(asked) == DONE[:2]
    assert all(queues.story.rows["q"][partition][1] == "1" for partition in tasks), "the source is the first refuge"
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE and f"executor {there} at {host}" in queues.message(asked)
    assert tasks_of(queues, "0") == tasks, "no task leaves its processor"
    assert not queues.story.state.fleet.ongoing.moves and asked.uuid not in queues.requests


def test_a_move_is_not_undone_by_the_next_plans(queues: Queues) -> None:
    host = free_host(queues)
    queues.places("0", host)
    queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    tasks = tasks_of(queues, "0")
    queues.story.joins("9@e")
    queues.after(TIMING.debounce_ms)
    for _ in range(3):
        queues.warms_up()
        queues.after(TIMING.rebind_timeout_ms)
    assert where(queues, "0") <= {executor_at(queues, host)} and tasks_of(queues, "0") <= tasks
    assert "1" not in queues.story.first_choice("q").values(), "the executor that was left is spare"


def test_tasks_whose_processors_are_gone_have_a_place_when_another_one_moves() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    for executor in "1234":
        queues.story.dies(executor)
    queues.after(TIMING.rebind_timeout_ms)
    queues.story.joins("8@a")
    queues.story.joins("9@b")
    queues.places(next(id for id, executor in queues.story.state.fleet.executor_of.items() if executor == "8"), "b")
    queues.is_read()
    queues.warms_up()
    assert set(queues.story.state.fleet.executor_of.values()) >= {"9"}, "it has moved"
    placed = [name for held in queues.story.state.fleet.model.containers.values() for name in held.actives]
    assert len(placed) == len(set(placed)) == 4


def test_an_empty_processor_that_is_moved_gets_its_share() -> None:
    queues = has_moved()
    (spare,) = (p.id for p in queues.story.state.fleet.processors.values() if p.is_spare)
    queues.places(spare, "c", at_ms=2)
    queues.is_read()
    for _ in range(4):
        queues.warms_up()
        queues.after(TIMING.debounce_ms)
        queues.runs_a_batch()
    assert tasks_of(queues, spare)


def test_a_spare_executor_holds_copies_and_gets_tasks_when_somebody_asks(queues: Queues) -> None:
    queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    back = queues.places("0", "a", at_ms=2)
    queues.is_read()
    if queues.changes(back) == ["BAD_REQUEST"]:  # with two copies, the new ones are where the state was
        assert "standby" in queues.message(back)
        back = queues.places("0", STANDBY, at_ms=3)
        queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(back) == DONE and where(queues, "0") == {"1"}
    assert (
        len(queues.story.state.fleet.processors) == 5 - 1 or queues.story.state.fleet.settings.replication_factor == 1
    )
    assert sum(processor.is_spare for processor in queues.story.state.fleet.processors.values()) <= 1


def test_a_spare_executor_takes_tasks_when_nobody_else_is_left() -> None:
    queues = has_moved(("1@a", "2@b"))
    assert set(queues.story.first_choice("q").values()) == {"2"}
    queues.story.dies("2")
    assert set(queues.story.first_choice("q").values()) == {"1"}, "at once, as the rows say"
    queues.after(TIMING.rebind_timeout_ms)
    assert set(queues.story.first_choice("q").values()) == {"1"}
    assert tasks_of(queues, next(iter(queues.story.state.fleet.processors))) == {0, 1, 2, 3}


def test_processors_of_one_executor_come_back_together() -> None:
    queues = has_moved()
    before = queues.story.state.fleet.processor_of_task()
    queues.story.dies("2")
    queues.story.joins("7@b")
    assert {queues.story.state.fleet.processors[id].executor for id in ("0", "1")} == {"7"}
    queues.after(TIMING.rebind_timeout_ms)
    assert queues.story.state.fleet.processor_of_task() == before


def test_a_destination_without_an_executor_is_waited_for_until_the_expiry(queues: Queues) -> None:
    before = queues.story.rows
    asked = queues.places("0", "e", expiry_ms=5_000)
    queues.is_read()
    queues.after(4_000)
    assert queues.changes(asked) == DONE[:2]
    queues.after(1_000)
    assert queues.changes(asked) == FAILED and "no executor was there for e within 5000 ms" in queues.message(asked)
    assert queues.story.rows == before


def test_an_executor_that_comes_in_time_is_taken(queues: Queues) -> None:
    asked = queues.places("0", "e", expiry_ms=5_000)
    queues.is_read()
    queues.story.joins("9@e")
    queues.after(TIMING.debounce_ms)
    queues.warms_up()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE and where(queues, "0") == {"9"}


def test_a_destination_that_dies_while_it_warms_up_leaves_the_source_untouched(queues: Queues) -> None:
    host = free_host(queues)
    asked = queues.places("0", host)
    queues.is_read()
    queues.story.dies(executor_at(queues, host))
    queues.after()
    assert queues.changes(asked) == FAILED and "was not touched" in queues.message(asked)
    assert where(queues, "0") == {"1"} and not queues.story.state.fleet.ongoing.moves


def test_a_destination_that_dies_after_the_switch_sends_the_tasks_back_to_the_source() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    asked = queues.places("0", "b")
    queues.is_read()
    queues.warms_up()
    assert where(queues, "0") == {"2"}
    queues.story.dies("2")
    queues.after()
    assert queues.changes(asked) == FAILED and "it is back on executor 1" in queues.message(asked)
    assert where(queues, "0") == {"1"} and queues.story.state.fleet.processors["0"].location == "a"


def test_when_the_source_is_lost_as_well_the_tasks_run_on_any_host() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    asked = queues.places("0", "b")
    queues.is_read()
    queues.warms_up()
    queues.story.dies("1", "2")
    queues.after()
    assert queues.changes(asked) == FAILED and "any host" in queues.message(asked)
    assert where(queues, "0") <= {"3", "4"}


def test_a_source_that_dies_while_its_tasks_warm_up_elsewhere_lets_them_run_there_at_once() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    asked = queues.places("0", "b")
    queues.is_read()
    queues.story.dies("1")
    queues.after()
    assert where(queues, "0") == {"2"}
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE


def test_a_source_that_dies_with_standbys_leaves_its_tasks_where_their_copies_are() -> None:
    queues = warm_on_four(factor=2)
    tasks = tasks_of(queues, "0")
    holders = {partition: queues.story.copies["q"][partition] for partition in tasks}
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.story.dies("1")
    queues.after()
    assert queues.changes(asked) == FAILED and "where their copies are" in queues.message(asked)
    assert all(queues.story.first_choice("q")[partition] in holders[partition] for partition in tasks)


def test_a_destination_that_can_not_make_copies_is_given_up_with_its_reason(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up(behind=1, trouble=("disk on fire", 0))
    queues.after(2 * TROUBLE_MS)
    assert queues.changes(asked) == DONE[:2], "the next attempt may take long, and one behind in trouble is not warm"
    queues.warms_up(behind=5, trouble=("disk on fire", TROUBLE_MS - 1))
    assert queues.changes(asked) == DONE[:2], "it may pass"
    queues.warms_up(behind=6, trouble=("disk still on fire", TROUBLE_MS))
    assert queues.changes(asked) == FAILED and where(queues, "0") == {"1"}
    assert "(disk still on fire): the source was not touched" in queues.message(asked)


def test_copies_that_do_not_come_are_a_failure_and_the_source_is_not_touched(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.after(REQUEST_TIMEOUTS.warm_up_ms)
    assert queues.changes(asked) == FAILED and "copies were not there" in queues.message(asked)
    assert where(queues, "0") == {"1"}


def test_copies_of_much_state_have_as_much_more_time_as_their_limit_gives_them_twice(queues: Queues) -> None:
    measured(queues.story, 60 * TIMING.copy_bytes_a_second, partitions=4)
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.after(REQUEST_TIMEOUTS.warm_up_ms + 119_000)
    assert queues.changes(asked) == DONE[:2]
    queues.after(1_000)
    assert queues.changes(asked) == FAILED and where(queues, "0") == {"1"}


def test_a_query_that_stands_still_does_not_hold_the_request_up(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up()
    assert queues.changes(asked) == DONE[:2]
    queues.after(IDLE_MS)
    assert queues.changes(asked) == DONE


def test_a_batch_that_takes_long_is_no_query_that_stands_still(queues: Queues) -> None:
    queues.runs_a_batch()
    queues.begins_a_batch()
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up()
    assert where(queues, "0") != {"1"}, "the next batch runs there"
    queues.after(100 * IDLE_MS)
    assert queues.changes(asked) == DONE[:2] and queues.story.state.fleet.ongoing.moves["0"].source == "1", (
        "it may be needed yet"
    )
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE


def test_the_last_word_says_what_was_fetched_at_the_destination() -> None:
    queues = Queues(running(partitions=8, executors=FOUR))
    first, second = sorted(tasks_of(queues, "0"))
    asked = queues.places("0", "b")
    queues.is_read()

    def opens(partition: int, remote_bytes: int) -> None:
        store = f"file:/ck/q/state/0/{partition}"
        opened = events.StoreOpened(queues.story.now_ms, "2", store, 3, 40, 5, 100, 1, remote_bytes, 0, 0)
        queues.carry_out(lambda: queues.story.take(opened))

    opens(first, 10_000)  # before the switch: it says nothing of the move
    queues.warms_up()
    opens(first, 0)
    opens(second, 77)
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE
    assert queues.message(asked).endswith("; 1 of 2 tasks opened what was there, 77 bytes were fetched")
    assert not queues.story.state.fleet.ongoing.openings


def test_a_batch_before_the_move_says_nothing_of_it() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    queues.runs_a_batch()
    queues.places("0", "b", at_ms=1)
    queues.is_read()
    queues.warms_up()
    queues.after(IDLE_MS + 1_000)
    back = queues.places("0", "a", at_ms=2)
    queues.is_read()
    queues.warms_up()
    queues.after()
    assert where(queues, "0") == {"1"} and queues.changes(back) == DONE[:2]
    queues.runs_a_batch()
    assert queues.changes(back) == DONE


def test_any_host_is_the_one_with_the_least_to_do_and_without_copies(queues: Queues) -> None:
    queues.story.joins("9@e")
    queues.after(TIMING.debounce_ms)
    asked = queues.places("0", ANY_HOST)
    queues.is_read()
    queues.warms_up()
    queues.warms_up()
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE and where(queues, "0") == {"9"}


def test_two_moves_at_once_go_to_two_executors() -> None:
    queues = Queues(running(partitions=8, executors=FOUR))
    first, second = queues.places("0", ANY_HOST), queues.places("1", ANY_HOST)
    queues.is_read()
    moves = queues.story.state.fleet.ongoing.moves
    assert len({move.executor for move in moves.values()}) == 2
    queues.warms_up()
    queues.after()
    queues.runs_a_batch()
    assert queues.changes(first) == queues.changes(second) == DONE


def test_standby_takes_over_where_the_copies_are_and_the_old_place_holds_them() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    queues.warms_up()
    asked = queues.places("0", STANDBY)
    queues.is_read()
    queues.after()
    assert where(queues, "0") == {"2"}, "the copies are warm: it switches at once"
    assert all(queues.story.copies["q"][partition] == ("1",) for partition in tasks_of(queues, "0"))
    queues.runs_a_batch()
    assert queues.changes(asked) == DONE
    queues.check()


@pytest.mark.parametrize(
    ("factor", "destination", "words"),
    [
        (1, STANDBY, "has no standby: spark.mooring.standby.replication.factor is 1"),
        (2, "standby", "expected a host, ANY_HOST, STANDBY or LAST_SEEN; nearest: STANDBY"),
        (1, "any_host", "nearest: ANY_HOST"),
        (1, "..", "nearest: "),
        (1, "no host", "expected a host, ANY_HOST or LAST_SEEN; nearest: "),
        (1, "Standby", "has no standby: spark.mooring.standby.replication.factor is 1"),
        (2, "b", "no two copies of a task at one location; STANDBY takes over where copies are"),
    ],
)
def test_a_destination_that_can_not_be_is_a_bad_request(factor: int, destination: str, words: str) -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=factor))
    before = queues.story.state.fleet
    asked = queues.places("0", destination)
    queues.is_read()
    assert queues.changes(asked) == ["BAD_REQUEST"] and words in queues.message(asked)
    assert queues.story.state.fleet == before


def test_what_no_earlier_request_can_mend_is_a_bad_request_at_once_and_what_one_can_is_judged_in_its_turn() -> None:
    queues = Queues(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    first = queues.places("0", "c", at_ms=1)  # waits for an executor
    never = queues.places("0", "any_host", at_ms=2)
    later = queues.places("0", "b", at_ms=3)  # where a copy is, as long as it is not stopped
    queues.is_read()
    assert queues.changes(first) == ["ACCEPTED", "IN_PROGRESS"]
    assert queues.changes(never) == ["BAD_REQUEST"] and queues.changes(later) == ["ACCEPTED"]


def test_a_batch_that_was_under_way_at_the_switch_is_no_failure_when_the_next_one_is_far_away(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    ran = queues.story.first_choice("q")
    queues.warms_up()
    queues.story.now_ms += 100
    queues.carry_out(lambda: queues.story.take(events.BatchEnded(queues.story.now_ms, "q", 7, 500, ran, 0, 0, 0)))
    queues.after(IDLE_MS)
    assert queues.changes(asked) == DONE[:2]
    queues.after(REQUEST_TIMEOUTS.switch_ms)
    assert queues.changes(asked) == DONE


def test_a_batch_that_begins_under_the_plan_and_runs_elsewhere_is_a_failure(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    ran = queues.story.first_choice("q")
    queues.warms_up()
    for batch in range(70):
        queues.story.now_ms += 1_000
        ended = events.BatchEnded(queues.story.now_ms, "q", batch, 500, ran, 0, 0, 0)
        queues.carry_out(lambda ended=ended: queues.story.take(ended))  # type: ignore[misc]
    assert queues.changes(asked) == FAILED and "ran elsewhere still" in queues.message(asked)
    assert where(queues, "0") == {"1"}


def test_a_partition_that_the_plan_could_not_place_holds_up_no_move(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    ran = queues.story.first_choice("q")
    queues.warms_up()
    moved = frozenset(tasks_of(queues, "0"))
    for batch in range(3):
        queues.story.now_ms += 1_000
        ended = events.BatchEnded(queues.story.now_ms, "q", batch, 500, ran, 0, 0, 0, not_placed=moved)
        queues.carry_out(lambda ended=ended: queues.story.take(ended))  # type: ignore[misc]
    assert queues.changes(asked) == DONE


def test_the_jvm_sends_the_tasks_where_they_warm_up_when_the_source_is_lost() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    queues.places("0", "d")
    queues.is_read()
    assert {queues.story.rows["q"][partition][:2] for partition in tasks_of(queues, "0")} == {("1", "4")}
