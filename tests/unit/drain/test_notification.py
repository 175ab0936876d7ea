"""What asks for a drain: JSON, and the keys in a store."""

from __future__ import annotations

import json
from uuid import UUID

import pytest

from mooring.drain import (
    NAMESPACE,
    DrainMode,
    DrainNotification,
    cleanup,
    cleanup_all,
    read_drain_notifications,
    write_drain_notification,
)
from mooring.errors import InvalidMessageError
from mooring.metadata import MemoryMetadataStore

ID = UUID("88b0d30c-d518-4307-9e8e-c8529eb30f04")


def form(**changed: object) -> str:
    return json.dumps({"uuid": str(ID), "runId": "app-1", "drainMode": "DEFAULT", **changed})


def test_it_is_written_as_the_contract_says() -> None:
    assert json.loads(DrainNotification(ID, "app-1").to_json()) == json.loads(form())
    assert DrainNotification.from_json(form()) == DrainNotification(ID, "app-1")
    of_one = DrainNotification(ID, "app-1", query="clicks")
    assert DrainNotification.from_json(of_one.to_json()) == of_one


@pytest.mark.parametrize("mode", ["default", "Default", "DEFAULT"])
def test_the_mode_is_read_in_any_case(mode: str) -> None:
    assert DrainNotification.from_json(form(drainMode=mode)).drain_mode is DrainMode.DEFAULT


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"drainMode": "FAST"}, 'drainMode is "FAST": expected one of DEFAULT; nearest valid value: DEFAULT'),
        ({"drainMode": 1}, "drainMode is 1: expected one of DEFAULT"),
        ({"runId": ""}, 'runId is "": expected the id of the application'),
        ({"uuid": "1"}, 'uuid is "1": expected a uuid'),
        ({"query": 7}, "query is 7: expected the name or the id of a query"),
    ],
)
def test_what_can_not_be_read_is_named(changed: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidMessageError) as refused:
        DrainNotification.from_json(form(**changed))
    assert said in str(refused.value)


def test_each_deployment_has_its_own() -> None:
    store = MemoryMetadataStore()
    ours = [DrainNotification.create("app-1") for _ in range(2)]
    other = DrainNotification.create("app-2")
    for one in (*ours, other, ours[0]):
        assert write_drain_notification(store, one) == one.uuid
    assert set(read_drain_notifications(store).of("app-1")) == set(ours)
    cleanup(store, "app-1")
    assert set(read_drain_notifications(store).notifications) == {other.uuid}
    cleanup_all(store)
    assert not read_drain_notifications(store).notifications


def test_a_message_that_can_not_be_read_is_an_error_of_that_message_alone() -> None:
    store = MemoryMetadataStore()
    write_drain_notification(store, DrainNotification(ID, "app-1"))
    store.put(f"{NAMESPACE}/half", form().encode()[:20])
    store.put(f"{NAMESPACE}/{UUID(int=1)}", form().encode())
    found = read_drain_notifications(store)
    assert list(found.notifications) == [ID]
    assert "no JSON text" in found.malformed["half"] and "as in the key" in found.malformed[str(UUID(int=1))]
    cleanup_all(store)
    assert store.all() == {}
