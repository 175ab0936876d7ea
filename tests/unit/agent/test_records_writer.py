"""The agent's memory over a store that comes and goes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from mooring.agent.records_writer import RecordsWriter
from mooring.coordination import KEPT_VERSIONS
from mooring.errors import MetadataStoreUnavailable, OutcomeUnknown, WriterReplaced
from mooring.metadata import MemoryMetadataStore, NamespacedMetadataStore
from mooring.model import ContainerModel, JobModel, LocationId, job_model_from_json
from mooring.placement import (
    STANDBY,
    ContainerPlacementMetadataStore,
    ContainerPlacementRequestMessage,
    StatusCode,
)
from mooring.records.operator_overrides import OperatorOverrides
from mooring.records.records import BARRIERS, JOB_MODELS, STATUS, TASK_LOCALITY, Records
from mooring.testing.probes import wait_until

pytestmark = pytest.mark.slow


class Unsteady(MemoryMetadataStore):
    """A store that can be away."""

    is_away = False
    times_away = 0
    """How often it was asked while it was away."""
    refuses_to_delete: Exception | None = None

    def delete(self, key: str) -> None:
        if self.refuses_to_delete:
            raise self.refuses_to_delete
        super().delete(key)

    def get(self, key: str) -> bytes | None:
        self._answer()
        return super().get(key)

    def all(self, prefix: str = "") -> dict[str, bytes]:
        self._answer()
        return super().all(prefix)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        self._answer()
        super().put_all(values)

    def _answer(self) -> None:
        if self.is_away:
            self.times_away += 1
            raise MetadataStoreUnavailable("nobody is there")


@pytest.fixture
def store() -> Unsteady:
    return Unsteady(uuid.uuid4().hex)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def remember(store: Unsteady, said: list[str]) -> Iterator[Callable[[], RecordsWriter]]:
    opened: list[RecordsWriter] = []

    def open_writer() -> RecordsWriter:
        opened.append(RecordsWriter(partial(Records, store), said.append))
        return opened[-1]

    yield open_writer
    for memory in opened:
        memory.close(timeout=0.1)


def model(version: int, place: str = "h1") -> JobModel:
    return JobModel.of([ContainerModel.of("0", [], LocationId(place))], version)


def test_what_is_kept_is_recalled_by_the_next(remember: Callable[[], RecordsWriter]) -> None:
    first = remember()
    assert first.recall(5) is not None
    first.save_job_model(model(7))
    first.save_task_locality({"q/Partition 0": "h1"})
    first.save_status({"tasks": [{"name": "q/Partition 0", "local-bytes": 12}]})
    assert first.flush(5)
    found = remember().recall(5)
    assert found is not None and found.model == model(7)
    assert found.task_locality == {"q/Partition 0": "h1"} and found.state_bytes == {"q/Partition 0": 12}


def test_nothing_is_written_before_the_last_run_was_recalled(
    store: Unsteady, remember: Callable[[], RecordsWriter]
) -> None:
    memory = remember()
    memory.save_status({"tasks": []})
    assert not memory.flush(0.3) and store.get(STATUS) is None
    memory.recall(5)
    assert memory.flush(5) and store.get(STATUS) is not None


def test_a_store_that_is_away_at_the_start_is_recalled_late(
    store: Unsteady, remember: Callable[[], RecordsWriter], said: list[str]
) -> None:
    store.is_away = True
    memory = remember()
    assert memory.recall(0.1) is None
    memory.save_task_locality({"a": "h1", "b": "h1"})
    memory.save_task_locality({"b": "h2"})
    store.is_away = False
    wait_until(lambda: memory.recall(0) is not None, "the memory", 10, interval=0.005)
    assert memory.flush(5)
    assert store.all(TASK_LOCALITY) == {f"{TASK_LOCALITY}/a": b"h1", f"{TASK_LOCALITY}/b": b"h2"}
    assert len(said) == 2 and "queries are not affected" in said[0] and said[1] == "the metadata store answers again"


def test_the_newest_notes_wait_for_a_store_that_goes_away(
    store: Unsteady, remember: Callable[[], RecordsWriter]
) -> None:
    memory = remember()
    memory.recall(5)
    store.is_away = True
    memory.save_job_model(model(1))
    memory.save_task_locality({"a": "h1"})
    assert not memory.flush(0.2)
    memory.save_job_model(model(2, "h2"))
    store.is_away = False
    assert memory.flush(20)
    assert job_model_from_json(store.get(f"{JOB_MODELS}/2") or b"") == model(2, "h2")
    assert store.get(f"{JOB_MODELS}/1") is None and store.get(f"{TASK_LOCALITY}/a") == b"h1"


def test_a_trouble_is_said_once_each_time_it_comes(
    store: Unsteady, remember: Callable[[], RecordsWriter], said: list[str]
) -> None:
    memory = remember()
    memory.recall(5)
    for _ in range(2):
        store.times_away, store.is_away = 0, True
        memory.save_status({"tasks": []})
        wait_until(lambda: store.times_away > 1, "a second try", 20, interval=0.005)
        store.is_away = False
        assert memory.flush(20)
        wait_until(lambda: said[-1:] == ["the metadata store answers again"], "the memory", 10, interval=0.005)
    assert len(said) == 4


@pytest.mark.parametrize("kind", [MetadataStoreUnavailable, OutcomeUnknown])
def test_a_request_that_can_not_be_removed_holds_up_no_answer(
    store: Unsteady, said: list[str], kind: type[Exception]
) -> None:
    store.refuses_to_delete = kind("it is not yours")
    memory = RecordsWriter(partial(Records, store), said.append, poll_seconds=0.02)
    try:
        memory.recall(5)
        first, second = (ContainerPlacementRequestMessage(uuid.uuid4(), "app", "0", STANDBY, 1) for _ in range(2))
        for request in (first, second):
            ContainerPlacementMetadataStore(store).write_request(request)
            memory.answer(request.answered(StatusCode.BAD_REQUEST, "no", 2))
            memory.remove_messages(request.uuid, response_too=False)
        assert memory.flush(5)
        answers = ContainerPlacementMetadataStore(store).all().responses
        assert answers.keys() == {first.uuid, second.uuid}
        assert sum("it is not yours" in line for line in said) == 1
        wait_until(lambda: (found := memory.messages()[0]) is not None and len(found.responses) == 2, "the messages", 5)
    finally:
        memory.close()


def test_answers_are_handed_over_again_so_that_old_ones_can_go(store: Unsteady, said: list[str]) -> None:
    memory = RecordsWriter(partial(Records, store), said.append, poll_seconds=0.02, return_again_seconds=0.2)
    try:
        memory.recall(5)
        request = ContainerPlacementRequestMessage(uuid.uuid4(), "app", "0", STANDBY, 1)
        memory.answer(request.answered(StatusCode.BAD_REQUEST, "no", 2))
        for _ in range(2):
            wait_until(lambda: (found := memory.messages()[0]) is not None and bool(found.responses), "the answer", 5)
        assert memory.messages()[0] is None
    finally:
        memory.close()


def test_only_the_newest_job_models_stay(store: Unsteady, remember: Callable[[], RecordsWriter]) -> None:
    memory = remember()
    memory.recall(5)
    for version in range(1, 15):
        memory.save_job_model(model(version))
        assert memory.flush(5)
    assert len(store.all(JOB_MODELS)) == KEPT_VERSIONS


def test_damaged_records_count_as_none_and_are_said(
    store: Unsteady, remember: Callable[[], RecordsWriter], said: list[str]
) -> None:
    store.put_all({f"{JOB_MODELS}/3": b"{", STATUS: b"[]"})
    found = remember().recall(5)
    assert found is not None and found.model is None and not found.state_bytes
    assert len(said) == 2 and all("ignored" in line for line in said)


def test_who_was_replaced_says_so_and_writes_no_more(
    store: Unsteady, remember: Callable[[], RecordsWriter], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = remember()
    assert memory.recall(5) is not None

    def replaced(*_: object) -> None:
        raise WriterReplaced("generation 2 has the role")

    monkeypatch.setattr(store, "put_all", replaced)
    memory.save_status({"application": "app-1"})
    wait_until(lambda: bool(said), "the agent to say it", 5)
    assert "another driver keeps the records" in said[0] and "generation 2" in said[0]
    memory.save_status({"application": "app-2"})
    assert memory.flush(5) and len(said) == 1


def test_the_end_of_the_application_is_noted_and_stays(store: Unsteady, remember: Callable[[], RecordsWriter]) -> None:
    memory = remember()
    memory.recall(5)
    memory.save_status({"application": "app-1", "at": 5, "queries": [{"name": "q", "state": "running"}]})
    memory.save_end("app-1", 7)
    memory.save_status({"application": "app-1", "at": 9, "queries": [{"name": "q", "state": "running"}]})
    assert memory.flush(5)
    ended = {"application": "app-1", "at": 7, "ended": 7, "queries": [{"name": "q", "state": "ended"}]}
    assert json.loads(store.get(STATUS) or b"") == ended


@pytest.mark.parametrize("there", [b'{"application": "app-2", "at": 5}', b"{", b"[]", None])
def test_the_end_is_noted_in_the_status_of_the_application_alone(
    there: bytes | None, store: Unsteady, remember: Callable[[], RecordsWriter]
) -> None:
    memory = remember()
    memory.recall(5)
    if there is not None:
        store.put(STATUS, there)
    memory.save_end("app-1", 7)
    assert memory.flush(5) and store.get(STATUS) == there


class Moving(Unsteady):
    """Goes on in another store from when that is set."""

    other: MemoryMetadataStore | None = None

    def get(self, key: str) -> bytes | None:
        return self.other.get(key) if self.other else super().get(key)

    def all(self, prefix: str = "") -> dict[str, bytes]:
        return self.other.all(prefix) if self.other else super().all(prefix)

    def put_all(self, values: Mapping[str, bytes]) -> None:
        (self.other.put_all if self.other else super().put_all)(values)

    def delete(self, key: str) -> None:
        (self.other.delete if self.other else super().delete)(key)


def test_where_the_records_get_another_place_all_that_is_known_is_written_there(said: list[str]) -> None:
    store, other = Moving(uuid.uuid4().hex), MemoryMetadataStore(uuid.uuid4().hex)
    before = Records(store, said.append)
    before.write_job_model(model(7))
    before.write_task_locality({"t0": "h1"})
    before.write_overrides(OperatorOverrides("app-1", drained=frozenset({"h9"})))
    strangers = Records(other, said.append)
    strangers.write_job_model(model(80, "h8"))
    strangers.write_barriers({80: "open"})
    strangers.write_task_locality({"strangers": "h8"})
    memory = RecordsWriter(
        partial(Records, store), said.append, count_place_changes=lambda: int(store.other is not None)
    )
    recalled = memory.recall(5)
    memory.save_barrier(7, "open")
    memory.save_task_locality({"t1": "h2"})
    assert memory.flush(5)
    store.other = other
    memory.save_status({"tasks": []})
    memory.save_end("app-1", 5)
    assert memory.flush(5)
    moved = Records(other, said.append)
    assert (
        recalled is not None and moved.read().model == recalled.model and moved.read().overrides == recalled.overrides
    )
    assert moved.job_models().keys() == {7} and moved.task_locality() == {"t0": "h1", "t1": "h2"}
    assert NamespacedMetadataStore(other, BARRIERS).all() == {"7": b"open"}
    assert json.loads(moved.status() or b"") == {"tasks": []} and not said
    memory.close(timeout=0.1)
