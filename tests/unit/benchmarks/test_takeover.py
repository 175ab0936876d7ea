"""The figures of a kill, from logs that were written by hand. Times are milliseconds after the kill."""

import pytest

from benchmarks.executor_log import ExecutorLog, Opening, Reads
from benchmarks.takeover import Kill, figures_of, holders, losses, resumed, victim

KILLED_AT = 1767607200
KILL = Kill(float(KILLED_AT), "2", frozenset({1, 4}))


def at(ms):
    return KILLED_AT * 1000 + ms


def opening(partition, began, took, version=9, task="a", copied=0):
    end = at(began + took)
    store = (0, partition, "default")
    return Opening(store, at(began), None, None, None, end, copied, version, f"task {task} of {partition}")


def log(*openings, jvm_began=-60_000, before=10, reads=()):
    """An executor whose tasks start `before` milliseconds before they open their state."""
    starts = {one.thread: one.began - before for one in openings}
    return ExecutorLog(list(openings), list(reads), began_ms=at(jvm_began), task_starts=starts)


def commits(**seconds):
    return {int(batch.removeprefix("batch_")): KILLED_AT + after for batch, after in seconds.items()}


def test_the_parts_add_up_to_the_time_from_the_kill_to_the_commit():
    logs = {"1": log(opening(1, 3000, 500)), "3": log(opening(4, 4000, 700), before=200)}
    seen = figures_of(KILL, logs, {"2": at(100)}, commits(batch_9=6.0), is_stock=True)
    assert seen["kill-to-commit-seconds"] == 6.0
    parts = {name: seen[f"{name}-seconds"] for name in ("detection", "scheduling", "open", "catch-up")}
    assert parts == pytest.approx({"detection": 0.1, "scheduling": 3.7, "open": 0.7, "catch-up": 1.5})
    assert seen["before-open-seconds"] == pytest.approx(0.2)
    assert seen["open-all-seconds"] == pytest.approx(1.2)


def test_the_batch_that_counts_is_the_first_that_opened_a_lost_partition_elsewhere():
    logs = {
        "1": log(opening(0, 100, 5, version=8), opening(1, 1500, 100), opening(1, 2500, 5, version=10)),
        "2": log(opening(1, -300, 20, version=8), opening(4, 2, 3, version=8)),  # its last words
    }
    seen = figures_of(KILL, logs, {"2": at(50)}, commits(batch_7=-0.8, batch_8=0.3, batch_9=2.0, batch_10=3.0), True)
    assert seen["kill-to-commit-seconds"] == 2.0
    assert seen["next-commit-seconds"] == pytest.approx(0.3)


def test_of_several_attempts_at_a_partition_the_last_counts_and_of_its_openings_the_first():
    logs = {
        "1": log(opening(1, 1000, 50, task="failed"), opening(1, 3000, 400, task="b"), opening(1, 3500, 1, task="b")),
        "3": log(opening(4, 1200, 30)),
    }
    assert {partition: one.opening.seconds for partition, one in resumed(KILL, logs).items()} == {1: 0.4, 4: 0.03}


def test_an_opening_that_was_cut_off_or_that_was_before_the_kill_does_not_count():
    cut_off = Opening((0, 1, "default"), at(500), version=9, thread="x")
    logs = {"1": log(opening(1, -500, 10)), "3": log(cut_off, opening(4, 900, 10))}
    assert list(resumed(KILL, logs)) == [4]


def test_lost_partitions_in_a_new_jvm_are_counted():
    logs = {"1": log(opening(1, 1000, 50)), "5": log(opening(4, 9000, 800), jvm_began=2000)}
    seen = figures_of(KILL, logs, {"2": at(50)}, commits(batch_9=11.0), is_stock=True)
    assert (seen["lost-partitions"], seen["in-new-jvm"]) == (2, 1)


def test_bytes_count_when_tasks_of_lost_partitions_read_them_until_the_commit():
    reads = [
        Reads((0, partition, "default"), at(ms), 0, 0, 1, 1000, 0, 0)
        for partition, ms in ((1, 500), (1, 9000), (0, 500))
    ]
    logs = {"1": log(opening(1, 450, 60, copied=70), opening(0, 450, 60, copied=7), reads=reads)}
    noticed, committed = {"2": at(50)}, commits(batch_9=1.0)
    assert figures_of(KILL, logs, noticed, committed, is_stock=True)["remote-bytes"] == 70
    assert figures_of(KILL, logs, noticed, committed, is_stock=False)["remote-bytes"] == 1000


def test_of_the_waits_for_blocks_of_the_dead_executor_the_longest_counts_until_the_commit():
    logs = {"1": log(opening(1, 5600, 50)), "3": log(), "2": log()}
    for executor, waits in {"1": [(-900, 700), (60, 5000), (9000, 5000)], "3": [(60, 1000)], "2": [(10, 8000)]}.items():
        logs[executor].shuffle_waits += [(at(ms), wait) for ms, wait in waits]
    seen = figures_of(KILL, logs, {"2": at(50)}, commits(batch_9=6.0), is_stock=True)
    assert seen["shuffle-wait-seconds"] == 5.0


def test_the_longest_gap_between_later_commits_shows_what_the_return_of_the_executor_costs():
    logs = {"1": log(opening(1, 1000, 50))}
    later = commits(batch_8=-9.0, batch_9=2.0, batch_10=3.0, batch_11=15.0, batch_12=16.0)
    assert figures_of(KILL, logs, {"2": at(50)}, later, is_stock=True)["return-gap-seconds"] == pytest.approx(12.0)


def test_a_driver_that_noticed_late_had_all_the_time_until_the_task_as_its_detection():
    logs = {"1": log(opening(1, 1000, 50))}
    for noticed in ({}, {"2": at(5000)}):
        seen = figures_of(KILL, logs, noticed, commits(batch_9=2.0), is_stock=True)
        assert seen["detection-seconds"] == pytest.approx(0.99)
        assert seen["scheduling-seconds"] == 0


def test_a_kill_after_which_nothing_was_opened_or_committed_has_no_figures():
    with pytest.raises(ValueError, match="no executor opened"):
        figures_of(KILL, {"1": log(opening(0, 100, 5))}, {}, commits(batch_9=1.0), is_stock=True)
    with pytest.raises(ValueError, match="batch 9 is not among"):
        figures_of(KILL, {"1": log(opening(1, 100, 5))}, {}, commits(batch_8=1.0), is_stock=True)


def test_the_drivers_first_word_of_a_loss_is_the_notice():
    words = "org.apache.spark.scheduler.TaskSchedulerImpl|Lost executor {} on 127.0.0.3: Remote RPC client"
    lines = [f"{at(ms)}|ERROR|dispatcher|{words.format(executor)}" for ms, executor in ((120, 2), (900, 2), (500, 11))]
    noise = "26/01/05 10:00:00 ERROR TaskSchedulerImpl: Lost executor 3 on 127.0.0.4"
    assert losses("\n".join([noise, *lines])) == {"2": at(120), "11": at(500)}


def test_a_partition_is_held_by_who_opened_it_last():
    logs = {"1": log(opening(0, 0, 5), opening(1, 0, 5)), "3": log(opening(1, 900, 5), opening(2, 0, 5))}
    assert holders(logs) == {0: "1", 1: "3", 2: "3"}


@pytest.mark.parametrize(
    ("held", "last_host", "expected"),
    [
        ("aaabbbcc", "", "a"),
        ("aaabbbcc", "host-a", "b"),
        ("aaaaabbb", "host-b", "b"),
        ("aaaaaaaa", "host-a", "a"),
        ("gggaaaaa", "", "a"),
    ],
)
def test_the_victim_has_an_even_share_or_what_is_nearest_to_it(held, last_host, expected):
    alive = {executor: f"host-{executor}" for executor in "abc"}
    assert victim(dict(enumerate(held)), alive, last_host) == expected


def test_there_is_no_victim_where_nobody_has_a_partition():
    with pytest.raises(ValueError, match="no executor"):
        victim({0: "gone"}, {"a": "host-a"}, "")
