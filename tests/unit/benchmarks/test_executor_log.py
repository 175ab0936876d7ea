"""Executors' logs, as Spark 4.2 and Mooring write them."""

from benchmarks.executor_log import parse

STORE = (
    "org.apache.spark.sql.execution.streaming.state.RocksDB StateStoreProviderId[ storeId=StateStoreId[ operatorId=0, "
    "partitionId={partition}, storeName=default ], queryRunId=87388dab-bbd6-4673-afb1-c6e091d3ef11 ]"
)

READS = "from this host 2 files (10443 bytes), 3 changelogs; from the checkpoint 1 files (99 bytes), 4 changelogs"


def line(ms, message, partition=None, logger="org.apache.spark.executor.Executor", thread="task 1.0 in stage 0.0"):
    name = logger if partition is None else STORE.format(partition=partition)
    return f"{1767607200000 + ms}|INFO|{thread}|{name}|{message}"


def opening(start, partition, copied=225_000_000):
    uid = "a3f93a76-b627-41f8-a20a-c46402a0046c"
    return [
        line(start, f"Loading 9 with stateStoreCkptId: {uid}", partition),
        line(start + 90, f"Loading checkpoint files for version 9 checkpointUniqueId: {uid}", partition),
        line(start + 590, f"Copied 4 files ({copied} bytes) from DFS to local with 0 files reused.", partition),
        line(start + 690, "Opened DB with conf RocksDBConf(100,30,10,false)", partition),
        line(start + 700, f"Loaded 9 with uniqueId Some({uid})", partition),
    ]


def test_an_opening_lasts_from_loading_to_loaded():
    (found,) = parse("\n".join(opening(1000, 3))).first_openings()
    assert found.store == (0, 3, "default")
    assert found.seconds == 0.7
    assert found.stock_copied_bytes == 225_000_000


def test_the_parts_of_an_opening_add_up_to_the_whole():
    (found,) = parse("\n".join(opening(1000, 3))).first_openings()
    assert found.parts() == {"find": 0.09, "files": 0.5, "native": 0.1, "rest": 0.01}
    assert round(sum(found.parts().values()), 6) == found.seconds


def test_an_opening_tells_its_version_and_its_task():
    log = parse("\n".join([line(900, "Running task 1.0 in stage 0.0 (TID 1)"), *opening(1000, 3)]))
    (found,) = log.first_openings()
    assert found.version == 9
    assert log.task_starts[found.thread] == log.began_ms == found.began - 100


def test_each_side_counts_its_own_bytes_from_the_checkpoint_for_the_stores_that_are_asked_for():
    read = f"Mooring: opened slow:/ck/state/0/6 at version 9 in 284 ms: {READS}"
    log = parse("\n".join([*opening(1000, 3, copied=50), *opening(2000, 5, copied=7), line(3000, read)]))
    assert (log.remote_bytes(is_stock=True), log.remote_bytes(is_stock=False)) == (57, 99)
    assert log.remote_bytes(is_stock=True, counts=lambda store, ms: store[1] == 5 and ms == 1767607202000) == 7


def test_the_second_opening_of_a_store_in_a_batch_is_not_counted():
    again = [
        line(2000, "Loading 9 with stateStoreCkptId: a3f93a76", 3),
        line(2005, "Loaded 9 with uniqueId Some(a3f93a76)", 3),
    ]
    log = parse("\n".join(opening(1000, 3) + again))
    assert [one.seconds for one in log.openings] == [0.7, 0.005]
    assert [one.seconds for one in log.first_openings()] == [0.7]


def test_a_copy_counts_from_when_a_task_has_taken_it_over():
    copy = "org.apache.spark.sql.execution.streaming.state.shims.RocksDBShim standby of slow:/ck/state/0/3"
    words = "Loading 9 with stateStoreCkptId: a3f9", "Loaded 9 with uniqueId Some(a3f9)"
    made = [line(ms, text, logger=copy, thread="mooring-standby-copy") for ms, text in enumerate(words)]
    taken = [line(ms, text, logger=copy + "/left-keys") for ms, text in zip((1000, 1004), words, strict=True)]
    (found,) = parse("\n".join(made + taken)).openings
    assert (found.store, found.seconds) == ((0, 3, "left-keys"), 0.004)


def test_openings_that_run_side_by_side_are_told_apart():
    lines = sorted(opening(1000, 3) + opening(1050, 5, copied=7), key=lambda text: int(text[:13]))
    found = {one.store[1]: one for one in parse("\n".join(lines)).first_openings()}
    assert {partition: one.stock_copied_bytes for partition, one in found.items()} == {3: 225_000_000, 5: 7}


def test_an_opening_that_was_cut_off_is_left_out():
    assert parse("\n".join(opening(1000, 3)[:-1])).first_openings() == []


def test_parts_that_the_log_does_not_mention_take_no_time():
    replay_only = [line(0, "Loading 0 with stateStoreCkptId: ", 1), line(20, "Loaded 0 with uniqueId None", 1)]
    (found,) = parse("\n".join(replay_only)).first_openings()
    assert found.parts() == {"find": 0.0, "files": 0.0, "native": 0.0, "rest": 0.02}


def test_what_mooring_read_is_read_back():
    text = f"Mooring: opened slow:/ck/state/0/6 at version 9 in 284 ms: {READS}"
    (reads,) = parse(line(5, text, logger="io.mooring.Mooring")).reads
    assert (reads.store, reads.local_bytes, reads.remote_bytes) == ((0, 6, "default"), 10443, 99)
    assert (reads.local_changelogs, reads.remote_changelogs) == (3, 4)


def test_a_named_store_of_a_join_is_read_back():
    text = f"Mooring: opened file:/ck/state/1/0/left-keyToNumValues at version 2 in 4 ms: {READS}"
    (reads,) = parse(line(5, text, logger="io.mooring.Mooring")).reads
    assert reads.store == (1, 0, "left-keyToNumValues")


def test_calls_to_slow_storage_count_for_the_store_that_was_opening():
    calls = [
        line(1010, "call exists /ck/state/0/3", logger="slow-storage"),
        line(1020, "call open /ck/state/0/3/9_a.zip", logger="slow-storage"),
        line(1030, "call open /ck/state/0/31/9_a.zip", logger="slow-storage"),
        line(9999, "call open /ck/state/0/3/10_a.zip", logger="slow-storage"),
        line(1040, "read 4096 /ck/state/0/3/9_a.zip", logger="slow-storage"),
    ]
    log = parse("\n".join(opening(1000, 3) + calls))
    assert log.calls_within(log.first_openings()[0]) == {"exists directory": 1, "open .zip": 1}
    assert [(count, path) for _, _, count, path in log.slow_reads] == [(4096, "/ck/state/0/3/9_a.zip")]


def test_uploads_in_the_background_are_timed():
    text = "StateStoreProviderId[ x ]: Upload snapshot of version 7, with uniqueId: Some(u) time taken: 41 ms. Current"
    assert parse(line(1, text)).upload_ms == [41]


def test_what_keeping_copies_took_is_read() -> None:
    text = [
        line(at, f"Mooring: keeping {files} files has taken 17 ms of writing state until now")
        for at, files in [(1, 4), (2, 9)]
    ]
    assert parse("\n".join(text)).kept == (9, 17)


def test_a_wait_for_blocks_of_a_shuffle_is_read_back():
    text = "Retrying fetch (1/3) for 1 outstanding blocks after 5000 ms"
    assert parse(line(1, text)).shuffle_waits == [(1767607200001, 5000)]


def test_lines_of_another_form_are_passed_over():
    noise = "WARNING: Using incubator modules\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    assert len(parse(noise + "\n".join(opening(1000, 3))).openings) == 1
