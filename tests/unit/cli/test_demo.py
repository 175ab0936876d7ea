"""`mooring demo`, without a cluster: the stream, the answer, what is read of a query's files, and the exit codes."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from mooring.cli.main import main
from mooring.demo import acts
from mooring.demo.answer import Offer, compare, offline_answer, written_rows
from mooring.demo.bids import Feed, Stream
from mooring.demo.drain_act import answer as windows_of
from mooring.demo.evidence import (
    Checkpoint,
    batch_seconds,
    began_at,
    input_rows,
    progress_reports,
    state_bytes,
)
from mooring.demo.records_place import records_place
from mooring.demo.scene import Scene
from mooring.testing.events import START_MS

pytest.importorskip("pyspark", reason="the demo's jobs import it; not in `make unit`")
from mooring.demo import open_windows, standing_offers

SMALL = Stream(files=10, bids_per_file=200, bidders=50)
MEASURES = {
    "hosts": 3,
    "executors": 3,
    "metadata": "files beside the checkpoint",
    "batches": 22,
    "placed-as-planned-percent": 100.0,
    "move": {
        "there": "SUCCEEDED",
        "back": "SUCCEEDED",
        "median-batch-seconds-before": 2.0,
        "longest-batch-seconds-during": 2.6,
    },
    "killed": {"executor": "1", "host": "127.0.0.3"},
    "first-commit-after-kill-seconds": 2.6,
    "median-batch-seconds": 2.0,
    "rows-in": 213798,
    "rows-out-equal-offline-answer": True,
    "restart": {"local-opens": 9, "remote-opens": 0, "bytes-from-snapshots": 0},
    "standby": {"first-commit-after-kill-seconds": 2.0, "failovers-to-standby": 3, "tasks": ["a", "b", "c"]},
    "rollback": {"undone": 4, "equal": True},
    "drain": {"rows-before": 0, "rows-out": 119, "state-rows-left": 0, "equal": True},
    "steps": [],
}


def test_the_stream_is_the_same_each_time(tmp_path):
    first, again = SMALL.write(tmp_path / "a"), SMALL.write(tmp_path / "b")
    assert [file.read_bytes() for file in first] == [file.read_bytes() for file in again]


def test_the_stream_has_late_bids_copies_and_hot_auctions(tmp_path):
    bids = [json.loads(line) for file in SMALL.write(tmp_path / "a") for line in file.read_text().splitlines()]
    assert len({bid["bid"] for bid in bids}) < len(bids)
    assert any(later["time"] < sooner["time"] for sooner, later in pairwise(bids))
    per_auction = [sum(bid["auction"] == auction for bid in bids) for auction in {bid["auction"] for bid in bids}]
    assert max(per_auction) > 3 * sum(per_auction) / len(per_auction)


def test_the_feed_hands_out_files_in_order(tmp_path):
    feed = Feed(SMALL.write(tmp_path / "to come"), tmp_path / "bids")
    feed.give(2)
    assert [path.name for path in sorted((tmp_path / "bids").iterdir())] == ["000000.json", "000001.json"]
    feed.give(100)
    assert feed.is_empty and len(feed.given) == SMALL.files


def test_the_answer_counts_every_copy_and_takes_the_best(tmp_path):
    bids = [
        {"auction": 1, "bidder": 2, "bid": bid, "price": price, "receipt": f"r{bid}"} for bid, price in ((1, 5), (2, 9))
    ]
    (tmp_path / "x.json").write_text("".join(json.dumps(bid) + "\n" for bid in [*bids, bids[0]]))
    read, answer = offline_answer([tmp_path / "x.json"])
    assert read == 3
    assert answer[1, 2][:3] == (3, 9, 2)


def rows(directory, batch, *offers):
    folder = directory / f"batch={batch}"
    folder.mkdir()
    keys = ("auction", "bidder", "bids", "price", "bid", "receipt")
    (folder / "part-0.json").write_text("".join(json.dumps(dict(zip(keys, o, strict=True))) + "\n" for o in offers))


def test_the_last_committed_batch_speaks_for_a_pair(tmp_path):
    rows(tmp_path, 9, (1, 1, 1, 5, 1, "a"), (2, 2, 1, 7, 2, "b"))
    rows(tmp_path, 10, (1, 1, 2, 6, 3, "c"))
    rows(tmp_path, 11, (1, 1, 99, 99, 99, "not committed"))
    found, twice = written_rows(tmp_path, [9, 10])
    assert found == {(1, 1): Offer(2, 6, 3, "c"), (2, 2): Offer(1, 7, 2, "b")} and twice == 0


def test_every_kind_of_difference_is_seen(tmp_path):
    right = {(1, 1): Offer(1, 5, 1, "a"), (2, 2): Offer(1, 7, 2, "b")}
    assert compare(dict(right), right).is_equal
    assert not compare({}, {}).is_equal
    assert compare({(1, 1): right[1, 1]}, right).missing == 1
    assert compare({**right, (3, 3): right[1, 1]}, right).surplus == 1
    assert compare({**right, (1, 1): Offer(1, 5, 1, "z")}, right).different == 1
    assert "(1, 1)" in compare({**right, (1, 1): Offer(1, 5, 1, "z")}, right).first_difference
    rows(tmp_path, 0, (1, 1, 1, 5, 1, "a"), (1, 1, 1, 5, 1, "a"), (2, 2, 1, 7, 2, "b"))
    assert not compare(*written_rows(tmp_path, [0])[:1], right, twice=written_rows(tmp_path, [0])[1]).is_equal


def test_the_checkpoint_tells_what_is_committed_and_what_runs(tmp_path):
    checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.last_commit(), checkpoint.running_batch(), checkpoint.files_committed()) == (-1, None, 0)
    for name in ("commits/9", "offsets/9", "offsets/10", "commits/.10.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":7}')
    assert (checkpoint.last_commit(), checkpoint.running_batch(), checkpoint.files_committed()) == (9, 10, 8)


def test_the_job_always_has_a_batch_to_run_and_one_to_come(tmp_path):
    feed = Feed(SMALL.write(tmp_path / "to come"), tmp_path / "bids")
    scene = Scene(tmp_path, None, feed, {}, None, print)
    for _ in range(3):
        scene.keep_fed(most_files=4)
    assert len(feed.given) == 2
    for name in ("commits/1", "offsets/1"):  # both are read
        (scene.checkpoint.directory / name).parent.mkdir(parents=True)
        (scene.checkpoint.directory / name).write_text('v1\n{"batchWatermarkMs":0}\n{"logOffset":1}')
    for _ in range(3):
        scene.keep_fed(most_files=3)
    assert len(feed.given) == 3


def test_progress_is_read_from_the_event_log_also_while_it_is_written(tmp_path):
    progress = {
        "batchId": 3,
        "timestamp": "2026-01-05T10:00:00.500Z",
        "durationMs": {"addBatch": 1, "triggerExecution": 2},
        "sources": [{"numInputRows": 5}],
        "stateOperators": [{"numRowsTotal": 4, "customMetrics": {"rocksdbSstFileSize": 77}}],
    }
    event = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
    line = json.dumps({"Event": event, "progress": progress}) + "\n"
    (tmp_path / "app-1").write_text('{"Event":"SparkListenerLogStart"}\n' + line + line[:40])
    (report,) = progress_reports(tmp_path)
    assert (input_rows(report), state_bytes(report)) == (5, 77)
    assert (began_at(report), batch_seconds(report)) == (START_MS / 1000 + 0.5, 0.002)


@pytest.mark.parametrize("job", [standing_offers, open_windows])
def test_the_jobs_have_not_one_word_of_mooring_in_them(job):
    assert "mooring" not in Path(job.__file__).read_text().lower()


def test_the_answer_of_the_windows_has_each_bid_once_in_its_window(tmp_path):
    bids = [(1, 5, "00.000"), (1, 9, "09.999"), (1, 4, "10.000"), (2, 7, "05.000")]
    lines = [json.dumps({"auction": a, "price": p, "time": f"2026-01-05T10:00:{t}Z"}) for a, p, t in bids]
    (tmp_path / "x.json").write_text("\n".join(lines))
    assert sorted(windows_of([tmp_path / "x.json"])) == [
        (START_MS, 1, 2, 9),
        (START_MS, 2, 1, 7),
        (START_MS + 10_000, 1, 1, 4),
    ]


@pytest.mark.parametrize(("is_equal", "code"), [(True, 0), (False, 1)])
def test_rows_that_differ_fail_the_demo(is_equal, code, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("mooring.cli.demo._need_java", lambda: None)
    measures = {**MEASURES, "rows-out-equal-offline-answer": is_equal}
    monkeypatch.setattr(acts, "run", lambda *_: measures)
    assert main(["demo", "--json", str(tmp_path / "seen.json")]) == code
    assert json.loads((tmp_path / "seen.json").read_text()) == measures
    assert "9 locally, 0 from the checkpoint" in capsys.readouterr().out


def test_a_move_during_which_no_batch_ran_is_told_of(monkeypatch, capsys):
    monkeypatch.setattr("mooring.cli.demo._need_java", lambda: None)
    move = {**MEASURES["move"], "there": "FAILED", "longest-batch-seconds-during": None}
    monkeypatch.setattr(acts, "run", lambda *_: {**MEASURES, "move": move})
    assert main(["demo"]) == 0
    assert "FAILED, SUCCEEDED; batches: median before 2.0 s, none during" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_refused_before_the_demo_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(acts, "run", lambda *_: pytest.fail("it ran"))
    assert main(["demo", "--json", str(tmp_path / "no" / "seen.json")]) == 2
    assert str(tmp_path / "no" / "seen.json") in capsys.readouterr().err


def test_without_java_the_demo_says_so(monkeypatch, capsys):
    monkeypatch.setenv("JAVA_HOME", "/no/such/java")
    assert main(["demo"]) == 1
    assert "/no/such/java" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "store"),
    [
        ([], (None, None)),
        (["--with", "kafka"], (None, "kafka")),
        (["--metadata", "zk://h:2181/demo"], ("zk://h:2181/demo", None)),
    ],
    ids=["default", "a server", "a store"],
)
def test_where_the_records_go_is_the_users_choice(arguments, store, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr("mooring.cli.demo._need_java", lambda: None)
    monkeypatch.setattr(acts, "run", lambda say, progress, *place: seen.append(place) or MEASURES)
    assert main(["demo", *arguments]) == 0
    assert seen == [store]


def test_a_server_and_a_store_at_once_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(acts, "run", lambda *_: pytest.fail("it ran"))
    assert main(["demo", "--with", "zookeeper", "--metadata", "zk://h:2181/demo"]) == 2
    assert "not allowed with" in capsys.readouterr().err


def test_the_default_place_is_named_by_no_setting(tmp_path):
    with records_place(tmp_path, None, None) as (place, settings):
        assert (place, settings) == (str(tmp_path / "checkpoints" / "_mooring" / "standing-offers"), {})
