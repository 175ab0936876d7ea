"""`mooring plan`: what would move, how much that is, and that nothing is changed by asking."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest

from mooring.cli.main import main
from mooring.client.forecast import as_json, forecast, queries_of
from mooring.metadata import FileMetadataStore
from mooring.model import ContainerModel, JobModel, LocationId, TaskMode, TaskName
from tests.unit.checkpoint.made import Made
from tests.unit.cli import records


def planned(place, capsys, *options):
    assert main(["plan", "--json", "--metadata", place, *options]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_fourth_host_takes_its_share_and_no_more(tmp_path, capsys):
    outlook = planned(records.write(tmp_path), capsys, "--add-host", "10.0.0.5")
    assert outlook["tasks-to-move"] == outlook["tasks-to-fetch"] == len(outlook["moves"]) == 2
    assert {move["to"]["location"] for move in outlook["moves"]} == {"10.0.0.5"}
    assert {move["to"]["processor"] for move in outlook["moves"]} == {"3"}
    assert outlook["bytes-to-fetch"] == 60_000_000
    assert outlook["hosts-after"] == [*records.HOSTS, "10.0.0.5"]


def test_the_tasks_of_a_host_that_goes_are_spread(tmp_path, capsys):
    outlook = planned(records.write(tmp_path), capsys, "--remove-host", "10.0.0.3")
    assert {move["from"]["location"] for move in outlook["moves"]} == {"10.0.0.3"}
    assert outlook["tasks-to-move"] == 3
    assert outlook["hosts-after"] == ["10.0.0.2", "10.0.0.4"]


def test_a_second_processor_on_a_host_fetches_nothing_from_it(tmp_path, capsys):
    outlook = planned(records.write(tmp_path, records.job_model(hosts=("a",))), capsys, "--add-host", "a")
    assert outlook["tasks-to-move"] == 4
    assert outlook["tasks-to-fetch"] == outlook["bytes-to-fetch"] == outlook["estimated-seconds"] == 0


def test_without_a_change_nothing_moves(tmp_path, capsys):
    place = records.write(tmp_path)
    assert planned(place, capsys)["moves"] == []
    assert main(["plan", "--metadata", place]) == 0
    assert "nothing would move" in capsys.readouterr().out


def test_the_records_stay_as_they_are(tmp_path, capsys):
    place = records.write(tmp_path)
    before = records.files_of(tmp_path)
    planned(place, capsys, "--add-host", "10.0.0.5", "--remove-host", "10.0.0.2")
    assert records.files_of(tmp_path) == before


def test_the_time_is_that_of_the_busiest_processor_at_the_measured_rate():
    model = records.job_model()
    status = records.status(model, {"restore-bytes-remote": 100_000_000, "restore-ms": 10_000})
    assert forecast(model, {}, status, ["10.0.0.5"], []).seconds == 6.0
    assert forecast(model, {}, status, ["10.0.0.5", "10.0.0.6"], []).seconds == 6.0


def test_the_time_is_not_known_where_nothing_was_measured(tmp_path, capsys):
    place = records.write(tmp_path)
    assert planned(place, capsys, "--add-host", "10.0.0.5")["estimated-seconds"] is None
    assert main(["plan", "--metadata", place, "--add-host", "10.0.0.5"]) == 0
    assert "time not known" in capsys.readouterr().out


def test_the_bytes_are_not_known_without_a_status(tmp_path, capsys):
    place = records.write(tmp_path, record={})
    assert planned(place, capsys, "--add-host", "10.0.0.5")["bytes-to-fetch"] is None
    assert main(["plan", "--metadata", place, "--add-host", "10.0.0.5"]) == 0
    assert "bytes not known" in capsys.readouterr().out


def test_people_see_each_move(tmp_path, capsys):
    assert main(["plan", "--metadata", records.write(tmp_path), "--remove-host", "10.0.0.4"]) == 0
    shown = capsys.readouterr().out
    assert "clicks/Partition 2" in shown and "2 on 10.0.0.4" in shown and "copy-is-there" in shown
    assert "3 of 9 tasks would move, 3 would fetch state: 90.0 MB" in shown
    assert "nothing was changed" in shown


def test_queries_are_known_by_their_stores_and_not_by_the_names_of_tasks():
    odd = "a/b/Partition 7"
    model = JobModel.of([*records.job_model(odd, partitions=2, hosts=("x",)).containers.values()], version=1)
    assert set(queries_of(model)) == {odd}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--remove-host", "10.0.0.33"],
            ["10.0.0.33", "expected one of 10.0.0.2, 10.0.0.3, 10.0.0.4", "nearest: 10.0.0.3"],
        ),
        (["--add-host", " "], ["--add-host"]),
        (
            [part for host in records.HOSTS for part in ("--remove-host", host)],
            ["--remove-host 10.0.0.4", "expected at least one to stay"],
        ),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(options, said, tmp_path, capsys):
    assert main(["plan", "--metadata", records.write(tmp_path), *options]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in said), message


def test_no_job_model_is_said_clearly(tmp_path, capsys):
    assert main(["plan", "--metadata", str(tmp_path)]) == 1
    assert "there is no job model in" in capsys.readouterr().err


def test_of_queries_that_ended_the_last_job_model_counts(tmp_path, capsys):
    records.write(tmp_path, records.job_model(version=5))
    place = records.write(tmp_path, records.job_model(partitions=0, version=6))
    assert planned(place, capsys, "--add-host", "10.0.0.5")["tasks-to-move"] == 2


def test_without_any_task_there_is_nothing_to_plan(tmp_path, capsys):
    assert main(["plan", "--metadata", records.write(tmp_path, records.job_model(partitions=0))]) == 0
    assert "nothing to plan" in capsys.readouterr().out


def test_a_damaged_job_model_is_called_damaged(tmp_path, capsys):
    place = records.write(tmp_path)
    with FileMetadataStore(place) as store:
        store.put("job-models/13", b"{}")
    assert main(["plan", "--metadata", place]) == 1
    assert "job model 13" in capsys.readouterr().err


def test_the_newest_job_model_counts(tmp_path, capsys):
    records.write(tmp_path, records.job_model(version=9))
    place = records.write(tmp_path, records.job_model(hosts=("x", "y"), version=10))
    outlook = planned(place, capsys)
    assert (outlook["version"], outlook["hosts-before"]) == (10, ["x", "y"])


def test_it_plans_with_the_grouper_that_the_job_uses():
    model = records.job_model()
    config = {"spark.mooring.grouper": "group-by-container-count:3"}
    fixed = JobModel.of(model.containers.values(), model.version, config)
    assert forecast(fixed, {}, records.status(model), ["10.0.0.5"], []).plan.moves == ()
    assert forecast(model, {}, records.status(model), ["10.0.0.5"], []).plan.moves != ()


def test_it_weighs_tasks_where_the_job_does():
    model = records.job_model()
    config = {"spark.mooring.grouper": "host-aware", "spark.mooring.grouper.weights": "bytes"}
    status = records.status(model)
    for task in status["tasks"]:
        task["local-bytes"] = 8_000_000_000 if task["name"] == "clicks/Partition 0" else 1_000_000
    weighed = JobModel.of(model.containers.values(), model.version, config)
    after = forecast(weighed, {}, status, ["10.0.0.5"], []).after
    assert sorted(len(container.tasks) for container in after.containers.values())[0] == 1


def test_a_grouper_that_is_not_to_be_had_here_is_said(tmp_path, capsys):
    model = records.job_model()
    config = {"spark.mooring.grouper": "no.such.module:Grouper"}
    place = records.write(tmp_path, JobModel.of(model.containers.values(), model.version, config))
    assert main(["plan", "--metadata", place]) == 1
    assert "no.such.module:Grouper" in capsys.readouterr().err


def test_a_processor_that_moves_takes_its_tasks_and_no_others(tmp_path, capsys):
    outlook = planned(records.write(tmp_path), capsys, "--move", "1=10.0.0.4")
    assert {move["from"]["location"] for move in outlook["moves"]} == {"10.0.0.3"}
    assert {move["to"]["location"] for move in outlook["moves"]} == {"10.0.0.4"}
    assert outlook["tasks-to-move"] == outlook["tasks-to-fetch"] == 3
    assert outlook["bytes-to-fetch"] == 90_000_000


def test_a_copy_that_is_there_already_is_not_fetched():
    model = records.job_model()
    status = records.status(model)
    task = model.containers["1"].tasks[TaskName("clicks/Partition 1")]
    standby = replace(
        task, task_name=TaskName(f"Standby-{task.task_name}-0"), task_mode=TaskMode.STANDBY, standby_of=task.task_name
    )
    held = ContainerModel.of("2", [*model.containers["2"].tasks.values(), standby], LocationId("10.0.0.4"))
    model = JobModel.of([model.containers["0"], model.containers["1"], held], 12)
    copy = {"name": standby.task_name, "mode": "Standby", "location": "10.0.0.4", "local-bytes": 1, "lag-versions": 0}
    status["tasks"].append(copy)
    outlook = as_json(forecast(model, {}, status, [], [], ["1=10.0.0.4"]))
    assert [move["task"] for move in outlook["moves"] if not move["fetches"]] == ["clicks/Partition 1"]
    assert [move["task"] for move in outlook["moves"] if move["copy-is-there"]] == ["clicks/Partition 1"]
    assert outlook["tasks-to-move"] == 3 and outlook["tasks-to-fetch"] == 2
    assert "place-container refuses 10.0.0.4 by name for processor 1" in outlook["notes"][0]
    assert not as_json(forecast(model, {}, status, [], [], ["1=10.0.0.9"]))["notes"]


def test_the_tasks_of_a_host_that_goes_are_expected_where_their_copies_are():
    model = records.job_model()
    gone = model.containers["1"]
    copies = [
        replace(task, task_name=TaskName(f"Standby-{name}-0"), task_mode=TaskMode.STANDBY, standby_of=name)
        for name, task in gone.actives.items()
    ]
    held = ContainerModel.of("2", [*model.containers["2"].tasks.values(), *copies], LocationId("10.0.0.4"))
    model = JobModel.of([model.containers["0"], gone, held], 12)
    status = records.status(model)
    for copy in copies:
        seen = {"name": copy.task_name, "mode": "Standby", "location": "10.0.0.4", "local-bytes": 1, "lag-versions": 0}
        status["tasks"].append(seen)
    moves = as_json(forecast(model, {}, status, [], ["10.0.0.3"]))["moves"]
    there = [move["task"] for move in moves if not move["fetches"] and move["to"]["location"] == "10.0.0.4"]
    assert there and set(there) <= set(gone.actives)
    without = as_json(forecast(records.job_model(), {}, records.status(model), [], ["10.0.0.3"]))["moves"]
    assert sum(move["fetches"] for move in moves) < sum(move["fetches"] for move in without)


def test_a_spare_processor_gets_nothing_in_the_forecast_either():
    model = records.job_model()
    spare = JobModel.of([*model.containers.values(), ContainerModel.of("7", [], LocationId("10.0.0.9"))], 12)
    status = records.status(spare)
    status["processors"][-1]["spare"] = True
    assert not forecast(spare, {}, status, [], []).plan.moves


@pytest.mark.parametrize(
    ("move", "words"),
    [
        ("1", "expected a processor and a host, such as 0=10.0.0.7"),
        ("11=b", "no processor 11: expected one of 0, 1, 2"),
        ("1=STANDBY", "--move 1=STANDBY: expected a location, such as 10.0.0.2"),
    ],
)
def test_a_move_that_makes_no_sense_is_bad_usage(tmp_path, capsys, move, words):
    assert main(["plan", "--metadata", records.write(tmp_path), "--move", move]) == 2
    assert words in capsys.readouterr().err


def test_nothing_goes_to_a_drained_host(tmp_path, capsys):
    model = records.job_model()
    drained = [{"location": "10.0.0.4", "state": "draining"}]
    place = records.write(tmp_path, model, {**records.status(model), "drained-hosts": drained})
    outlook = planned(place, capsys, "--remove-host", "10.0.0.3")
    assert {move["to"]["location"] for move in outlook["moves"]} == {"10.0.0.2"}
    assert main(["plan", "--metadata", place, "--move", "0=10.0.0.4"]) == 2
    assert "host 10.0.0.4 is drained: expected an open one; nearest: 10.0.0" in capsys.readouterr().err


def test_the_catalogue_is_asked_for_the_versions_that_the_commit_log_names(tmp_path, capsys, monkeypatch):
    made = Made(tmp_path / "clicks", batches=2)
    asked = []

    def newest_bytes(spark, table, query, valid_ids, newest):
        asked.append((table, query, valid_ids, newest))
        return {0: 11}

    monkeypatch.setattr("mooring.cli.plan.newest_bytes", newest_bytes)
    monkeypatch.setattr("mooring.checkpoint.state_table.session", lambda conf: nullcontext())
    place = records.write(tmp_path / "records", records.job_model(partitions=2, hosts=("a",)), record={})
    options = ["--remove-host", "a", "--add-host", "b", "--catalog-table", "ops.versions"]
    outlook = planned(place, capsys, *options, "--checkpoint", str(made.directory))
    assert asked == [("ops.versions", "query-1", {0: ["u1p0", "u1p1"], 1: ["u2p0", "u2p1"]}, 1)]
    assert {move["task"]: move["bytes"] for move in outlook["moves"]} == {
        "clicks/Partition 0": 11,
        "clicks/Partition 1": None,
    }


def test_a_checkpoint_of_a_query_that_ended_before_the_others_is_refused_with_the_reason(tmp_path, capsys):
    """The newest plan has the tasks of `counts` alone, and the status still names `clicks`."""
    checkpoint = tmp_path / "clicks"
    for log in ("offsets", "commits"):
        (checkpoint / log).mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "3f0c0de0-0000-0000-0000-000000000000"}')
    model = records.job_model("counts")
    place = records.write(tmp_path / "records", model, records.status(model))
    assert main(["plan", "--metadata", place, "--checkpoint", str(checkpoint)]) == 2
    said = capsys.readouterr().err
    assert "query clicks is not in the newest plan, as it has ended: expected the checkpoint of counts" in said
