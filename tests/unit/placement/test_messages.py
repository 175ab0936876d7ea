"""The JSON of requests and responses: what is written is read again, and what is wrong is named."""

import json
from uuid import UUID

import pytest

from mooring.errors import InvalidMessageError
from mooring.placement import (
    STANDBY,
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    StandbyAction,
    StatusCode,
)

ID = UUID("88b0d30c-d518-4307-9e8e-c8529eb30f04")
PLACE = ContainerPlacementRequestMessage(ID, "app-2026-0001", "4", "ANY_HOST", 1_578_694_070_875, 10_000)
STOP = ContainerPlacementRequestMessage(ID, "app-2026-0001", "4", STANDBY, 1, standby=StandbyAction.STOP)
DRAIN = ContainerPlacementRequestMessage(ID, "app-2026-0001", "*", "10.0.0.7", 1, host_action=HostAction.DRAIN)


def changed(**fields: object) -> str:
    """The request with other fields; None takes one away."""
    form = {**PLACE.as_json(), **fields}
    return json.dumps({name: value for name, value in form.items() if value is not None})


def test_a_request_is_written_as_the_contract_has_it() -> None:
    assert json.loads(PLACE.to_json()) == {
        "uuid": "88b0d30c-d518-4307-9e8e-c8529eb30f04",
        "deploymentId": "app-2026-0001",
        "processorId": "4",
        "destinationHost": "ANY_HOST",
        "subType": "ContainerPlacementRequestMessage",
        "statusCode": "CREATED",
        "timestamp": 1_578_694_070_875,
        "requestExpiry": 10_000,
    }


@pytest.mark.parametrize("request_", [PLACE, STOP, DRAIN])
def test_a_request_is_read_as_it_was_written(request_: ContainerPlacementRequestMessage) -> None:
    assert ContainerPlacementRequestMessage.from_json(request_.to_json()) == request_


def test_what_is_not_set_is_left_out() -> None:
    assert "requestExpiry" not in STOP.as_json() and "standby" not in PLACE.as_json()


@pytest.mark.parametrize("status", [status for status in StatusCode if status is not StatusCode.CREATED])
def test_a_response_says_how_far_its_request_is(status: StatusCode) -> None:
    read = ContainerPlacementResponseMessage.from_json(STOP.answered(status, "für 4", 77).to_json())
    assert (read.status_code, read.response_message, read.timestamp) == (status, "für 4", 77)
    assert (read.request.uuid, read.request.processor_id, read.request.standby) == (ID, "4", StandbyAction.STOP)


def test_the_response_of_the_reference_is_read() -> None:
    text = (
        '{"processorId":"1","deploymentId":"app-atttempt-001","subType":"ContainerPlacementResponseMessage",'
        '"responseMessage":"Request is accepted","uuid":"88b0d30c-d518-4307-9e8e-c8529eb30f04",'
        '"destinationHost":"ANY_HOST","statusCode":"ACCEPTED","timestamp":1578694070875}'
    )
    assert ContainerPlacementResponseMessage.from_json(text).status_code is StatusCode.ACCEPTED


def test_unknown_fields_are_ignored() -> None:
    assert ContainerPlacementRequestMessage.from_json(changed(applicationId=[1])) == PLACE


def test_bad_request_succeeded_and_failed_are_final() -> None:
    assert {status.value for status in StatusCode if status.is_final} == {"BAD_REQUEST", "SUCCEEDED", "FAILED"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON text"),
        ('{"uuid": ', "no JSON text"),
        ("[" * 100_000, "no JSON text"),
        ("[1]", "expected a JSON object"),
        (changed(deploymentId=None), "deploymentId is missing: expected the id of the application"),
        (changed(deploymentId=None, deploymentID="a"), 'there is "deploymentID"'),
        (changed(processorId=4), 'processorId is 4: expected the id of a processor.*nearest valid value: "4"'),
        (changed(processorId=""), 'processorId is "": expected'),
        (changed(processorId="4\nfake line"), "printable"),
        (changed(processorId="\ud800"), "printable"),
        (changed(processorId="4" * 1_001), "at most 1000"),
        (changed(destinationHost=["h"]), "destinationHost is .*: expected a host, ANY_HOST"),
        (changed(timestamp="12"), 'timestamp is "12": expected milliseconds.*nearest valid value: 12'),
        (changed(timestamp="9" * 5_000), "timestamp is .*nearest valid value: 0"),
        (changed(timestamp=-1), "timestamp is -1: .*nearest valid value: 0"),
        (changed(timestamp=True), "timestamp is true"),
        (changed(requestExpiry=1.5), "requestExpiry is 1.5"),
        (changed(requestExpiry=-1), "requestExpiry is -1: expected milliseconds.*nearest valid value: 0"),
        (changed(uuid="88b0d30c"), 'uuid is "88b0d30c": expected a uuid'),
        (changed(uuid="{88b0d30c-d518-4307-9e8e-c8529eb30f04}"), "expected a uuid"),
        (changed(statusCode="SUCCEEDED"), "statusCode is .*: expected one of CREATED"),
        (changed(subType="ContainerPlacementResponseMessage"), "subType is .*expected .ContainerPlacementRequest"),
        (changed(standby="stopp"), "standby is .*expected one of START, STOP; nearest valid value: STOP"),
        (changed(standby="STOP"), "destinationHost is .ANY_HOST.: expected .STANDBY."),
    ],
)
def test_what_is_wrong_is_named_with_what_is_expected(text: str, words: str) -> None:
    with pytest.raises(InvalidMessageError, match=words):
        ContainerPlacementRequestMessage.from_json(text)


def test_a_response_that_is_created_is_none() -> None:
    text = STOP.answered(StatusCode.CREATED, "", 1).to_json()
    with pytest.raises(InvalidMessageError, match="statusCode"):
        ContainerPlacementResponseMessage.from_json(text)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hostAction": "DRIAN", "processorId": "*"}, "expected one of DRAIN, OPEN; nearest valid value: DRAIN"),
        ({"hostAction": "DRAIN", "requestExpiry": None}, 'processorId is "4": expected "*"'),
        ({"hostAction": "DRAIN", "processorId": "*"}, "requestExpiry is 10000: expected none"),
        ({"hostAction": "OPEN", "processorId": "*", "requestExpiry": None, "standby": "STOP"}, 'standby is "STOP"'),
    ],
)
def test_a_request_about_a_host_has_no_other_wish(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidMessageError) as refused:
        ContainerPlacementRequestMessage.from_json(changed(**fields))
    assert words in str(refused.value)
