"""Messages in a metadata store: their keys, and a bad one among good ones."""

from uuid import UUID, uuid4

import pytest

from mooring.errors import InvalidMessageError
from mooring.metadata import MemoryMetadataStore
from mooring.placement import STANDBY, ContainerPlacementMetadataStore, ContainerPlacementRequestMessage, StatusCode

NAMESPACE = "samza-place-container-v1/"


def request(uuid: UUID | None = None) -> ContainerPlacementRequestMessage:
    return ContainerPlacementRequestMessage(uuid or uuid4(), "app", "4", STANDBY, 5)


@pytest.fixture
def store() -> MemoryMetadataStore:
    return MemoryMetadataStore()


@pytest.fixture
def messages(store: MemoryMetadataStore) -> ContainerPlacementMetadataStore:
    return ContainerPlacementMetadataStore(store)


def test_keys_are_those_of_the_contract(store: MemoryMetadataStore, messages: ContainerPlacementMetadataStore) -> None:
    asked = request()
    messages.write_request(asked)
    messages.write_response(asked.answered(StatusCode.ACCEPTED, "yes", 6))
    assert set(store.all()) == {
        f"{NAMESPACE}{asked.uuid}.ContainerPlacementRequestMessage",
        f"{NAMESPACE}{asked.uuid}.ContainerPlacementResponseMessage",
    }


def test_what_is_written_is_read_and_what_is_deleted_is_gone(messages: ContainerPlacementMetadataStore) -> None:
    asked = request()
    answer = asked.answered(StatusCode.ACCEPTED, "yes", 5)
    messages.write_request(asked)
    messages.write_response(answer)
    assert messages.read_request(asked.uuid) == asked and messages.read_response(asked.uuid) == answer
    messages.delete_request(asked.uuid)
    assert messages.read_request(asked.uuid) is None and messages.read_response(asked.uuid) == answer
    messages.write_request(asked)
    messages.delete_both(asked.uuid)
    assert messages.read_request(asked.uuid) is None and messages.read_response(asked.uuid) is None


def test_malformed_and_foreign_records_hold_up_nobody(
    store: MemoryMetadataStore, messages: ContainerPlacementMetadataStore
) -> None:
    good, bad, other = request(), uuid4(), uuid4()
    messages.write_request(good)
    store.put(f"{NAMESPACE}{bad}.ContainerPlacementRequestMessage", b'{"deploymentId": "app", "processorId": 4}')
    store.put(f"{NAMESPACE}{other}.ContainerPlacementRequestMessage", request().to_json().encode())
    store.put(f"{NAMESPACE}{uuid4()}.ContainerPlacementResponseMessage", b"\xff")
    for foreign in ("x.ContainerPlacementRequestMessage", f"{bad}.SomethingElse", f"{bad}", ""):
        store.put(NAMESPACE + foreign, b"{}")
    found = messages.all()
    assert found.requests == {good.uuid: good} and found.responses == {}
    assert set(found.malformed) == {bad, other}
    assert found.malformed[bad].request.deployment_id == "app" and "subType" in found.malformed[bad].reason
    assert "as in the key" in found.malformed[other].reason


def test_one_bad_message_is_told_to_who_asks_for_it(
    store: MemoryMetadataStore, messages: ContainerPlacementMetadataStore
) -> None:
    uuid = uuid4()
    store.put(f"{NAMESPACE}{uuid}.ContainerPlacementResponseMessage", b"{}")
    with pytest.raises(InvalidMessageError, match="subType is missing"):
        messages.read_response(uuid)
