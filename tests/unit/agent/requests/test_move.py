"""Moving a processor to another executor: what the core decides, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.agent.planning.moves_in_steps import IDLE_MS
from mooring.agent.requests.move import CATCH_UP_MS, progress
from mooring.agent.requests.phase import RequestTimeouts
from mooring.model import events
from mooring.placement import STANDBY
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
from tests.unit.agent.queues import Queues, Request

REQUEST_TIMEOUTS = RequestTimeouts()


def moves_with_warm_copies(queues: Queues) -> tuple[Request, Mapping[int, str]]:
    """A move whose copies are warm; the request, and the executors of the tasks before it."""
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    ran = queues.story.first_choice("q")
    queues.warms_up()
    return asked, ran


def ends_a_batch(
    queues: Queues,
    batch: int,
    ran: Mapping[int, str],
    after_ms: int = 1_000,
    not_placed: frozenset[int] = frozenset(),
) -> None:
    """A batch ends whose tasks ran on these executors."""
    queues.story.now_ms += after_ms
    ended = events.BatchEnded(queues.story.now_ms, "q", batch, 500, ran, 0, 0, 0, not_placed=not_placed)
    queues.carry_out(lambda: queues.story.take(ended))


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


def test_the_progress_counts_the_tasks_for_which_the_switch_does_not_wait(queues: Queues) -> None:
    queues.places("0", free_host(queues))
    queues.is_read()
    queues.warms_up(behind=1)
    (action,) = queues.story.state.queue.actions
    fleet, tasks = queues.story.state.fleet, len(tasks_of(queues, "0"))
    shown = [progress(fleet, action, action.since_ms + wait_ms) for wait_ms in (CATCH_UP_MS - 1, CATCH_UP_MS)]
    assert f"0 of {tasks} tasks' state is on" in shown[0] and f"{tasks} of {tasks} tasks' state is on" in shown[1]


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


def test_copies_that_do_not_come_are_a_failure_and_the_source_is_not_touched(queues: Queues) -> None:
    asked = queues.places("0", free_host(queues))
    queues.is_read()
    queues.after(REQUEST_TIMEOUTS.warm_up_ms)
    assert queues.changes(asked) == FAILED and "copies are not warm" in queues.message(asked)
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
    words = "; 1 of 2 tasks opened files that were on the host already, 77 bytes were fetched"
    assert queues.message(asked).endswith(words)
    assert not queues.story.state.fleet.ongoing.moves


def test_an_answer_counts_no_openings_of_an_earlier_move_while_another_move_goes_on() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    other = queues.places("2", "d", at_ms=1)
    queues.is_read()
    (task,) = tasks_of(queues, "0")
    messages = []
    for host, executor, remote_bytes in (("b", "2", 77), ("a", "1", 5), ("b", "2", 3)):
        asked = queues.places("0", host, at_ms=2)
        queues.is_read()
        queues.carry_out(lambda to=executor: queues.story.sees_copies(to))  # type: ignore[misc]
        queues.after()
        assert where(queues, "0") == {executor} and queues.changes(other) == DONE[:2]
        store = f"file:/ck/q/state/0/{task}"
        opened = events.StoreOpened(queues.story.now_ms, executor, store, 3, 40, 5, 100, 1, remote_bytes, 0, 0)
        queues.carry_out(lambda one=opened: queues.story.take(one))  # type: ignore[misc]
        queues.runs_a_batch()
        assert queues.changes(asked) == DONE
        messages.append(queues.message(asked).rpartition(", ")[2])
    assert messages == ["77 bytes were fetched", "5 bytes were fetched", "3 bytes were fetched"]


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


def test_a_batch_that_was_under_way_at_the_switch_is_no_failure_when_the_next_one_is_far_away(queues: Queues) -> None:
    asked, ran = moves_with_warm_copies(queues)
    ends_a_batch(queues, 7, ran, after_ms=100)
    queues.after(IDLE_MS)
    assert queues.changes(asked) == DONE[:2]
    queues.after(REQUEST_TIMEOUTS.switch_ms)
    assert queues.changes(asked) == DONE


def test_a_batch_that_begins_under_the_plan_and_runs_elsewhere_is_a_failure(queues: Queues) -> None:
    asked, ran = moves_with_warm_copies(queues)
    for batch in range(70):
        ends_a_batch(queues, batch, ran)
    assert queues.changes(asked) == FAILED and "ran elsewhere still" in queues.message(asked)
    assert where(queues, "0") == {"1"}


def test_a_partition_that_the_plan_could_not_place_holds_up_no_move(queues: Queues) -> None:
    asked, ran = moves_with_warm_copies(queues)
    moved = frozenset(tasks_of(queues, "0"))
    for batch in range(3):
        ends_a_batch(queues, batch, ran, not_placed=moved)
    assert queues.changes(asked) == DONE


def test_the_jvm_sends_the_tasks_where_they_warm_up_when_the_source_is_lost() -> None:
    queues = Queues(running(partitions=4, executors=FOUR))
    queues.places("0", "d")
    queues.is_read()
    assert {queues.story.rows["q"][partition][:2] for partition in tasks_of(queues, "0")} == {("1", "4")}
