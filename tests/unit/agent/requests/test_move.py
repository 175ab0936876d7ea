"""Moving a processor to another executor: what the core decides, and what it answers."""

from __future__ import annotations

import pytest

from mooring.agent.requests.move import CATCH_UP_MS, IDLE_MS, TROUBLE_MS, Patience
from mooring.model import events
from mooring.placement import ANY_HOST, STANDBY
from tests.unit.agent.builders import TIMING, measured, running
from tests.unit.agent.desks import Desks
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

PATIENCE = Patience()


@pytest.fixture(params=[1, 2], ids=["one copy", "two copies"])
def desks(request: pytest.FixtureRequest) -> Desks:
    return warm_on_four(request.param)


def test_an_executor_that_gets_no_tasks_is_no_destination(desks: Desks) -> None:
    host = free_host(desks)
    there = executor_at(desks, host)
    desks.story.take(events.OffersWithheld(desks.story.now_ms, {there: "Spark has excluded it after failures"}))
    asked = desks.places("0", host)
    desks.is_read()
    assert where(desks, "0") == {"1"} and there not in desks.story.mind.fleet.moves
    desks.after(PATIENCE.reserve_ms)
    assert desks.changes(asked) == FAILED
    assert f"executor {there} on {host} gets no tasks: Spark has excluded it" in desks.message(asked)


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


def test_tasks_whose_processors_are_gone_have_a_place_when_another_one_moves() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    for executor in "1234":
        desks.story.dies(executor)
    desks.after(TIMING.rebind_timeout_ms)
    desks.story.joins("8@a")
    desks.story.joins("9@b")
    desks.places(next(id for id, executor in desks.story.mind.fleet.executor_of.items() if executor == "8"), "b")
    desks.is_read()
    desks.warms_up()
    assert set(desks.story.mind.fleet.executor_of.values()) >= {"9"}, "it has moved"
    placed = [name for held in desks.story.mind.fleet.model.containers.values() for name in held.actives]
    assert len(placed) == len(set(placed)) == 4


def test_an_empty_processor_that_is_moved_gets_its_share() -> None:
    desks = has_moved()
    (spare,) = (p.id for p in desks.story.mind.fleet.processors.values() if p.is_spare)
    desks.places(spare, "c", at_ms=2)
    desks.is_read()
    for _ in range(4):
        desks.warms_up()
        desks.after(TIMING.debounce_ms)
        desks.runs_a_batch()
    assert tasks_of(desks, spare)


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
    desks = has_moved(("1@a", "2@b"))
    assert set(desks.story.first_choice("q").values()) == {"2"}
    desks.story.dies("2")
    assert set(desks.story.first_choice("q").values()) == {"1"}, "at once, as the rows say"
    desks.after(TIMING.rebind_timeout_ms)
    assert set(desks.story.first_choice("q").values()) == {"1"}
    assert tasks_of(desks, next(iter(desks.story.mind.fleet.processors))) == {0, 1, 2, 3}


def test_processors_of_one_executor_come_back_together() -> None:
    desks = has_moved()
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


def test_a_source_that_dies_with_standbys_leaves_its_tasks_where_their_copies_are() -> None:
    desks = warm_on_four(factor=2)
    tasks = tasks_of(desks, "0")
    holders = {partition: desks.story.copies["q"][partition] for partition in tasks}
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.story.dies("1")
    desks.after()
    assert desks.changes(asked) == FAILED and "where their copies are" in desks.message(asked)
    assert all(desks.story.first_choice("q")[partition] in holders[partition] for partition in tasks)


def test_a_destination_that_can_not_make_copies_is_given_up_with_its_reason(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.warms_up(behind=1, trouble=("disk on fire", 0))
    desks.after(2 * TROUBLE_MS)
    assert desks.changes(asked) == DONE[:2], "the next attempt may take long, and one behind in trouble is not warm"
    desks.warms_up(behind=5, trouble=("disk on fire", TROUBLE_MS - 1))
    assert desks.changes(asked) == DONE[:2], "it may pass"
    desks.warms_up(behind=6, trouble=("disk still on fire", TROUBLE_MS))
    assert desks.changes(asked) == FAILED and where(desks, "0") == {"1"}
    assert "(disk still on fire): the source was not touched" in desks.message(asked)


def test_copies_that_do_not_come_are_a_failure_and_the_source_is_not_touched(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.after(PATIENCE.warm_up_ms)
    assert desks.changes(asked) == FAILED and "copies were not there" in desks.message(asked)
    assert where(desks, "0") == {"1"}


def test_copies_of_much_state_have_as_much_more_time_as_their_limit_gives_them_twice(desks: Desks) -> None:
    measured(desks.story, 60 * TIMING.copy_bytes_a_second, partitions=4)
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.after(PATIENCE.warm_up_ms + 119_000)
    assert desks.changes(asked) == DONE[:2]
    desks.after(1_000)
    assert desks.changes(asked) == FAILED and where(desks, "0") == {"1"}


def test_a_query_that_stands_still_does_not_hold_the_request_up(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.warms_up()
    assert desks.changes(asked) == DONE[:2]
    desks.after(IDLE_MS)
    assert desks.changes(asked) == DONE


def test_a_batch_that_takes_long_is_no_query_that_stands_still(desks: Desks) -> None:
    desks.runs_a_batch()
    desks.begins_a_batch()
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    desks.warms_up()
    assert where(desks, "0") != {"1"}, "the next batch runs there"
    desks.after(100 * IDLE_MS)
    assert desks.changes(asked) == DONE[:2] and desks.story.mind.fleet.moves["0"].source == "1", "it may be needed yet"
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE


def test_the_last_word_says_what_was_fetched_at_the_destination() -> None:
    desks = Desks(running(partitions=8, executors=FOUR))
    first, second = sorted(tasks_of(desks, "0"))
    asked = desks.places("0", "b")
    desks.is_read()

    def opens(partition: int, remote_bytes: int) -> None:
        store = f"file:/ck/q/state/0/{partition}"
        opened = events.StoreOpened(desks.story.now_ms, "2", store, 3, 40, 5, 100, 1, remote_bytes, 0, 0)
        desks.carry_out(lambda: desks.story.take(opened))

    opens(first, 10_000)  # before the switch: it says nothing of the move
    desks.warms_up()
    opens(first, 0)
    opens(second, 77)
    desks.runs_a_batch()
    assert desks.changes(asked) == DONE
    assert desks.message(asked).endswith("; 1 of 2 tasks opened what was there, 77 bytes were fetched")
    assert not desks.story.mind.fleet.openings


def test_a_batch_before_the_move_says_nothing_of_it() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    desks.runs_a_batch()
    desks.places("0", "b", at_ms=1)
    desks.is_read()
    desks.warms_up()
    desks.after(IDLE_MS + 1_000)
    back = desks.places("0", "a", at_ms=2)
    desks.is_read()
    desks.warms_up()
    desks.after()
    assert where(desks, "0") == {"1"} and desks.changes(back) == DONE[:2]
    desks.runs_a_batch()
    assert desks.changes(back) == DONE


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
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=factor))
    before = desks.story.mind.fleet
    asked = desks.places("0", destination)
    desks.is_read()
    assert desks.changes(asked) == ["BAD_REQUEST"] and words in desks.message(asked)
    assert desks.story.mind.fleet == before


def test_what_no_earlier_request_can_mend_is_a_bad_request_at_once_and_what_one_can_is_judged_in_its_turn() -> None:
    desks = Desks(running(partitions=4, executors=("1@a", "2@b"), factor=2))
    first = desks.places("0", "c", at_ms=1)  # waits for an executor
    never = desks.places("0", "any_host", at_ms=2)
    later = desks.places("0", "b", at_ms=3)  # where a copy is, as long as it is not stopped
    desks.is_read()
    assert desks.changes(first) == ["ACCEPTED", "IN_PROGRESS"]
    assert desks.changes(never) == ["BAD_REQUEST"] and desks.changes(later) == ["ACCEPTED"]


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


def test_a_partition_that_the_plan_could_not_place_holds_up_no_move(desks: Desks) -> None:
    asked = desks.places("0", free_host(desks))
    desks.is_read()
    ran = desks.story.first_choice("q")
    desks.warms_up()
    moved = frozenset(tasks_of(desks, "0"))
    for batch in range(3):
        desks.story.now_ms += 1_000
        ended = events.BatchEnded(desks.story.now_ms, "q", batch, 500, ran, 0, 0, 0, not_placed=moved)
        desks.carry_out(lambda ended=ended: desks.story.take(ended))  # type: ignore[misc]
    assert desks.changes(asked) == DONE


def test_the_jvm_sends_the_tasks_where_they_warm_up_when_the_source_is_lost() -> None:
    desks = Desks(running(partitions=4, executors=FOUR))
    desks.places("0", "d")
    desks.is_read()
    assert {desks.story.rows["q"][partition][:2] for partition in tasks_of(desks, "0")} == {("1", "4")}
