"""`mooring control-standby` and `container-status` beside an agent that the test plays, or that is not there."""

import json
import threading
from contextlib import contextmanager
from uuid import uuid4

import pytest

from mooring.cli.main import main
from mooring.cli.output import ProgressLine
from mooring.metadata import FileMetadataStore
from mooring.placement import ContainerPlacementMetadataStore, StatusCode
from mooring.testing.probes import wait_until
from tests.unit.cli import records

APPLICATION = "app-20261121-0001"


@pytest.fixture
def place(tmp_path):
    return records.write(tmp_path)


@pytest.fixture
def messages(place):
    return ContainerPlacementMetadataStore(FileMetadataStore(place))


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr("mooring.client.client._LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr("mooring.client.client._MEANWHILE_EVERY_SECONDS", 0.02)
    monkeypatch.setattr("mooring.cli.application.life._LOOK_EVERY_SECONDS", 0.05)


def ask(place, *more):
    return main(["control-standby", "--metadata", place, "--processor-id", "1", *more])


def only_request(messages):
    (request,) = messages.all().requests.values()
    return request


def only_request_of(place):
    return ContainerPlacementMetadataStore(FileMetadataStore(place)).all().requests


def agent(messages, *answers):
    """Answers the first request that comes, and takes it away."""

    def run():
        wait_until(lambda: bool(messages.all().requests), "a request", 30)
        request = only_request(messages)
        for status, message in answers:
            messages.write_response(request.answered(status, message, 7))
        messages.delete_request(request.uuid)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_without_wait_the_request_is_written_for_the_application_that_runs(place, messages, capsys):
    assert ask(place, "stop", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    request = only_request(messages)
    assert shown["uuid"] == str(request.uuid) and shown["statusCode"] == "CREATED"
    assert (request.deployment_id, request.processor_id, request.destination_host) == (APPLICATION, "1", "STANDBY")
    assert request.standby is not None and request.standby.value == "STOP"
    assert ask(place, "start", "--deployment-id", "app-7") == 0
    assert "app-7" in {found.deployment_id for found in messages.all().requests.values()}


def test_without_wait_and_json_no_answer_is_read(place, messages, capsys, monkeypatch):
    def no_reading(client, uuid):
        raise AssertionError("nobody shows the answer")

    monkeypatch.setattr("mooring.client.MooringClient.container_status", no_reading)
    assert ask(place, "stop") == 0
    assert str(only_request(messages).uuid) in capsys.readouterr().out


def test_wait_tells_the_way_and_ends_well(place, messages, capsys):
    thread = agent(messages, (StatusCode.ACCEPTED, "yes"), (StatusCode.SUCCEEDED, "no copies now"))
    assert ask(place, "stop", "--wait") == 0
    thread.join()
    assert "SUCCEEDED: no copies now" in capsys.readouterr().out


def test_wait_shows_how_far_it_is_while_it_is_under_way(place, messages, capsys, monkeypatch):
    shown = threading.Event()
    show = ProgressLine.show_change

    def shows(line, text):
        show(line, text)
        shown.set()

    monkeypatch.setattr(ProgressLine, "show_change", shows)

    def run():
        wait_until(lambda: bool(messages.all().requests), "a request", 30)
        request = only_request(messages)
        rows = [
            {"uuid": str(uuid4()), "message": "of another one"},
            {"uuid": str(request.uuid), "message": "1 of 3 tasks' state is there"},
        ]
        status = records.status(records.job_model())
        records.write(place, record={**status, "requests": rows})
        messages.write_response(request.answered(StatusCode.IN_PROGRESS, "it moves", 7))
        assert shown.wait(30)
        messages.write_response(request.answered(StatusCode.SUCCEEDED, "it is there", 8))

    thread = threading.Thread(target=run)
    thread.start()
    assert ask(place, "stop", "--wait") == 0
    thread.join()
    out = capsys.readouterr().out
    assert out.index("1 of 3 tasks' state is there") < out.index("SUCCEEDED: it is there")
    assert "of another one" not in out


def test_a_request_that_fails_ends_with_1_and_its_reason(place, messages, capsys):
    thread = agent(messages, (StatusCode.BAD_REQUEST, "there is no processor 1"))
    assert ask(place, "stop", "--wait", "--json") == 1
    thread.join()
    shown = capsys.readouterr()
    assert json.loads(shown.out)["statusCode"] == "BAD_REQUEST" and "there is no processor 1" in shown.err


def test_a_request_that_is_removed_ends_with_1(place, messages, capsys):
    thread = agent(messages)
    assert ask(place, "stop", "--wait", "--deployment-id", "app-0") == 1
    thread.join()
    assert "app-0 is not the application that runs" in capsys.readouterr().err


def test_nobody_answers_in_time(place, capsys):
    assert ask(place, "stop", "--wait", "--timeout", "100ms") == 4
    said = capsys.readouterr().err
    assert "is CREATED after 100ms" in said


@contextmanager
def statuses(place, seconds_behind):
    """An agent that writes its status again and again, by a clock that is behind this one."""
    is_over = threading.Event()

    def run():
        while not is_over.wait(0.02):
            write_status(place, seconds_behind)

    write_status(place, seconds_behind)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def write_status(place, seconds_old):
    record = records.status(records.job_model())
    records.write(place, record={**record, "at": record["at"] - 1000 * seconds_old})


def test_a_wait_that_is_over_says_nothing_of_an_old_status_that_was_replaced_meanwhile(place, capsys):
    write_status(place, seconds_old=40)

    def run():
        wait_until(lambda: bool(only_request_of(place)), "a request", 30)
        write_status(place, seconds_old=0)

    thread = threading.Thread(target=run)
    thread.start()
    assert ask(place, "stop", "--wait", "--timeout", "2s") == 4
    thread.join()
    assert "SILENT" not in capsys.readouterr().err


@pytest.mark.parametrize("seconds_behind", [40, 4000])
def test_an_application_whose_clock_is_behind_is_asked_and_waited_for(place, messages, capsys, seconds_behind):
    with statuses(place, seconds_behind):
        assert ask(place, "stop", "--wait", "--timeout", "2s") == 4  # in this time another status is read
        assert "SILENT" not in capsys.readouterr().err
        uuid = only_request(messages).uuid
        assert main(["container-status", "--metadata", place, "--uuid", str(uuid)]) == 0
        assert "nobody acts on it any more" not in capsys.readouterr().out


def test_a_query_of_an_application_whose_clock_is_behind_is_drained(place, messages, capsys):
    with statuses(place, 4000):
        assert main(["drain", "--metadata", place, "--wait", "--timeout", "300ms"]) == 4
    assert "is not over after 300ms" in capsys.readouterr().err


def test_status_of_a_request(place, messages, capsys):
    assert ask(place, "stop", "--json") == 0
    uuid = json.loads(capsys.readouterr().out)["uuid"]
    look = ["container-status", "--metadata", place, "--uuid", uuid, "--processor-id"]
    assert main([*look, "1"]) == 0 and "CREATED: the agent has not seen it yet" in capsys.readouterr().out
    messages.write_response(only_request(messages).answered(StatusCode.IN_PROGRESS, "looking", 6))
    assert main([*look, "1"]) == 0 and "IN_PROGRESS: looking" in capsys.readouterr().out
    messages.write_response(only_request(messages).answered(StatusCode.FAILED, "why", 7))
    assert main([*look, "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["responseMessage"] == "why"
    assert main(look[:-1]) == 0 and "FAILED: why" in capsys.readouterr().out
    assert main([*look, "2"]) == 1 and "is about processor 1, not 2" in capsys.readouterr().err


def test_a_request_to_an_application_that_has_ended_is_shown_with_that(place, tmp_path, capsys):
    assert ask(place, "stop", "--json") == 0
    uuid = json.loads(capsys.readouterr().out)["uuid"]
    record = records.status(records.job_model())
    records.write(tmp_path, record={**record, "ended": record["at"]})
    assert main(["container-status", "--metadata", place, "--uuid", uuid]) == 0
    assert f"nobody acts on it any more: {APPLICATION} ENDED at 20" in capsys.readouterr().out


def test_who_waits_hears_at_once_that_the_application_has_ended(place, tmp_path, messages, capsys):
    def run():
        wait_until(lambda: bool(messages.all().requests), "a request", 30)
        record = records.status(records.job_model())
        records.write(tmp_path, record={**record, "ended": record["at"]})

    thread = threading.Thread(target=run)
    thread.start()
    assert ask(place, "stop", "--wait", "--timeout", "30s") == 1
    thread.join()
    assert f"{APPLICATION} ENDED at 20" in capsys.readouterr().err


def test_a_request_that_is_not_there(place, capsys):
    assert main(["container-status", "--metadata", place, "--processor-id", "1", "--uuid", str(uuid4())]) == 1
    assert "there is no request" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["control-standby", "--processor-id", "1", "strat"], "expected one of start, stop; nearest: start"),
        (["control-standby", "stop"], "--processor-id"),
        (["control-standby", "--processor-id", "", "stop"], 'processorId is ""'),
        (["control-standby", "--processor-id", "1", "stop", "--timeout", "soon"], "--timeout soon: expected"),
        (["container-status", "--processor-id", "1", "--uuid", "88b0"], "--uuid 88b0: expected a uuid"),
    ],
)
def test_bad_usage_says_what_is_expected(place, messages, capsys, arguments, said):
    assert main([*arguments, "--metadata", place]) == 2
    assert said in capsys.readouterr().err
    assert not messages.all().requests


def test_a_place_without_records_is_not_written_to(tmp_path, capsys):
    assert ask(str(tmp_path / "nothing"), "stop") == 1
    assert "there is no status" in capsys.readouterr().err and not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(("command", "action"), [("drain-host", "DRAIN"), ("open-host", "OPEN")])
def test_a_request_about_a_host(place, messages, capsys, command, action):
    assert main([command, "10.0.0.3", "--metadata", place]) == 0
    request = only_request(messages)
    assert (request.processor_id, request.destination_host, request.deployment_id) == ("*", "10.0.0.3", APPLICATION)
    assert request.host_action is not None and request.host_action.value == action
    assert type(request).from_json(request.to_json()) == request
    assert main([command, "", "--metadata", place]) == 2 and 'destinationHost is ""' in capsys.readouterr().err
