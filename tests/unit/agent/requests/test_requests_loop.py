"""Requests through the agent's loop and a real file store, by the command line and by the client."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mooring.agent.loop import Agent
from mooring.agent.records_writer import RecordsWriter
from mooring.cli.main import main
from mooring.client import MooringClient
from mooring.errors import AgentError
from mooring.metadata import FileMetadataStore, MetadataStore
from mooring.model import events
from mooring.placement import LAST_SEEN, STANDBY, ContainerPlacementRequestMessage, StandbyAction, StatusCode
from mooring.placement.store import NAMESPACE
from mooring.records.operator_overrides import OperatorOverrides
from mooring.records.records import OPERATOR_OVERRIDES, STATUS, Records
from mooring.testing.probes import wait_until
from tests.unit.agent.test_loop import Bridge, executors, planned
from tests.unit.agent.test_records_writer import Unsteady

pytestmark = pytest.mark.slow


class LivingBridge(Bridge):
    """A JVM that tells its news and then stays, until it is told to go."""

    def __init__(self, *news: list[events.Event]) -> None:
        super().__init__(*news)
        self.is_over = threading.Event()
        self.polls = 0
        self.restarted: list[str] = []
        self.forgotten: list[str] = []

    def announce(self, version: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        self.picked_up = [events.PlanPickedUp(now_ms, executor, version) for executor in sorted(self.executors)]

    def restart(self, request: str, executor: str, wait_ms: int) -> None:
        self.restarted.append(executor)

    def forget_restart(self, request: str) -> None:
        self.forgotten.append(request)

    def poll_events(self, timeout_ms: int) -> list[events.Event]:
        self.polls += 1
        if self.news or self.picked_up:
            return super().poll_events(timeout_ms)
        if self.is_over.wait(min(timeout_ms, 10) / 1000):
            raise AgentError("the driver is gone")
        return []


class Application:
    """Its agent runs in a thread; the test is the operator."""

    def __init__(
        self,
        store: MetadataStore,
        application: str = "app-1",
        factor: int = 2,
        copies_of_another_agent: LivingBridge | None = None,
        takes_over: bool = False,
        attempt: str = "",
        batch: int = 0,
    ) -> None:
        settings = {
            "spark.mooring.standby.replication.factor": str(factor),
            "spark.mooring.debounce": "0ms",
            "spark.mooring.host.affinity.wait": "200ms",
        }
        begin = events.ApplicationStarted(0, application, "clicks", settings, "file:/ck", attempt=attempt)
        told: list[events.Event] = [begin]
        if copies_of_another_agent is not None:
            told = [events.PlanInForce(0, 50, copies_of_another_agent.plans[-1]), *told]
        self.bridge = LivingBridge([*told, *executors("a", "b", "c")], [planned(batch=batch)])
        self.memory = RecordsWriter(
            partial(Records, store), self.bridge.said.append, poll_seconds=0.02, follows_another_driver=takes_over
        )
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        wait_until(lambda: bool(self.bridge.plans and "q" in self.bridge.plans[-1]), "the first plan", 30)

    def _run(self) -> None:
        try:
            Agent(self.bridge, lambda *_: self.memory).run()
        except BaseException as error:
            self.failure = error

    def end(self) -> None:
        self.bridge.is_over.set()
        self.thread.join(10)
        self.memory.close()
        assert isinstance(self.failure, AgentError) and "gone" in str(self.failure), (
            "the driver's end, and nothing else"
        )

    def copied(self) -> set[str]:
        """The executors whose tasks have copies, by what the JVM was told last."""
        rows, copies = self.bridge.plans[-1]["q"], self.bridge.copies[-1].get("q", {})
        return {rows[partition][0] for partition in copies}


Start = Callable[..., Application]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[Application] = []

    def begin(store: MetadataStore | None = None, **how: Any) -> Application:
        running.append(Application(store or FileMetadataStore(str(tmp_path)), **how))
        wait_until(lambda: FileMetadataStore(str(tmp_path)).get(STATUS) is not None or store is not None, "status", 30)
        return running[-1]

    yield begin
    for application in running:
        application.end()


def status(place: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["status", "--metadata", str(place), "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown


def stopped(shown: dict[str, Any]) -> set[str]:
    return {processor["id"] for processor in shown["processors"] if processor.get("standby-stopped")}


def test_the_command_stops_and_starts_and_status_shows_it(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    application = start()
    ask = ["control-standby", "--metadata", str(tmp_path), "--processor-id", "0", "--wait", "--json"]
    assert main([*ask, "stop"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["statusCode"], answer["deploymentId"], answer["standby"]) == ("SUCCEEDED", "app-1", "STOP")
    assert application.copied() == {"1", "2"}
    wait_until(lambda: stopped(status(tmp_path, capsys)) == {"0"}, "the status", 30)
    assert main(["status", "--metadata", str(tmp_path)]) == 0
    assert "bound, standby stopped" in capsys.readouterr().out
    assert main([*ask, "start"]) == 0
    assert "2 copies are in the plan" in json.loads(capsys.readouterr().out)["responseMessage"]
    assert application.copied() == {"0", "1", "2"}
    wait_until(lambda: stopped(status(tmp_path, capsys)) == set(), "the status", 30)
    requests = [line for line in application.bridge.told if line.startswith("request ")]
    assert len([line for line in requests if line.endswith("is accepted")]) == 2
    assert len([line for line in requests if ") SUCCEEDED: " in line]) == 2
    assert not [line for line in application.bridge.said if line.startswith("request ")], "at WARN"


def test_another_attempt_at_the_application_has_other_executors_of_the_same_ids(start: Start, tmp_path: Path) -> None:
    first = start(attempt="1")
    uuid = MooringClient.open(str(tmp_path)).control_standby("1", StandbyAction.STOP, "app-1")
    wait_until(lambda: first.copied() == {"0", "2"}, f"{uuid} in force", 30)
    first.end()
    second = start(attempt="2")
    wait_until(lambda: second.copied() == {"0", "1", "2"}, "a plan with all copies", 30)


@pytest.mark.parametrize("waits_for_copies", [False, True])
def test_another_attempt_at_the_application_does_not_do_again_what_was_begun(
    start: Start, tmp_path: Path, waits_for_copies: bool
) -> None:
    first, client = start(attempt="1", batch=5 if waits_for_copies else 0), MooringClient.open(str(tmp_path))
    uuid = client.place_container("0", LAST_SEEN, "app-1")

    def status_code() -> StatusCode:
        answer = client.container_status(uuid)
        assert answer is not None
        return answer.status_code

    wait_until(lambda: status_code() is StatusCode.IN_PROGRESS, "the restart to be under way", 30)
    assert len(first.bridge.restarted) == (0 if waits_for_copies else 1)
    first.end()
    second = start(attempt="2")
    wait_until(lambda: status_code() is StatusCode.FAILED, "the request to be over", 30)
    assert second.bridge.restarted == []


def test_another_attempt_at_the_application_goes_on_emptying_a_host(start: Start, tmp_path: Path) -> None:
    first, client = start(attempt="1"), MooringClient.open(str(tmp_path))
    host = client.status()["processors"][0]["location"]
    uuid = client.drain_host(host, "app-1")

    def status_code() -> StatusCode:
        answer = client.container_status(uuid)
        assert answer is not None
        return answer.status_code

    wait_until(lambda: status_code() is StatusCode.IN_PROGRESS, "the host to be emptied", 30)
    first.end()
    start(attempt="2")
    wait_until(lambda: status_code().is_final, "the request to be over", 30)
    assert status_code() is StatusCode.SUCCEEDED


def test_what_is_stopped_outlives_the_agent_and_ends_with_the_application(start: Start, tmp_path: Path) -> None:
    first = start()
    client = MooringClient.open(str(tmp_path))
    uuid = client.control_standby("1", StandbyAction.STOP, "app-1")
    answer = client.wait(uuid, 30, lambda _: None)
    assert answer is not None and answer.status_code is StatusCode.SUCCEEDED
    first.end()
    second = start(copies_of_another_agent=first.bridge)
    wait_until(lambda: second.copied() == {"0", "2"}, "a plan without the copies", 30)
    second.end()
    taking_over = start(application="app-2", takes_over=True)
    wait_until(lambda: taking_over.copied() == {"0", "2"}, "a plan without the copies", 30)
    taking_over.end()
    kept = FileMetadataStore(str(tmp_path)).get(OPERATOR_OVERRIDES)
    assert kept is not None and OperatorOverrides.from_json(kept) == OperatorOverrides("app-2", frozenset({"1"}))
    another = start(application="app-3")
    wait_until(lambda: another.copied() == {"0", "1", "2"}, "a plan with all copies", 30)
    another.end()
    behind_it = start(application="app-4", takes_over=True)
    wait_until(lambda: behind_it.copied() == {"0", "1", "2"}, "a plan with all copies", 30)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{}",
        b'{"application": "app-1", "stopped-standbys": "0"}',
        b'{"application": "app-1", "stopped-standbys": [0]}',
        b'{"application": "app-1", "stopped-standbys": ["0"], "carriers": ["1"]}',
        b'{"application": "app-1", "stopped-standbys": ["0"], "under-way": {"a": {}}}',
    ],
)
def test_a_damaged_record_of_what_is_stopped_counts_as_none_and_is_said(
    start: Start, tmp_path: Path, damaged: bytes
) -> None:
    FileMetadataStore(str(tmp_path)).put(OPERATOR_OVERRIDES, damaged)
    application = start()
    assert application.copied() == {"0", "1", "2"}
    assert len([line for line in application.bridge.said if "what operators have asked is not known" in line]) == 1


def test_a_record_of_a_later_version_is_read(start: Start, tmp_path: Path) -> None:
    record = {"application": "app-1", "stopped-standbys": ["2", "77"], "since": 12}
    FileMetadataStore(str(tmp_path)).put(OPERATOR_OVERRIDES, json.dumps(record).encode())
    assert start().copied() == {"0", "1"}


def test_what_is_stopped_counts_also_when_the_store_answers_late(start: Start) -> None:
    store = Unsteady(uuid4().hex)
    store.put(OPERATOR_OVERRIDES, b'{"application": "app-1", "stopped-standbys": ["1"]}')
    store.is_away = True
    application = start(store)
    assert application.copied() == {"0", "1", "2"}
    store.is_away = False
    wait_until(lambda: application.copied() == {"0", "2"}, "a plan without the copies", 30)


def test_every_change_of_status_is_written_and_the_request_goes(start: Start, tmp_path: Path) -> None:
    written: list[str] = []

    class Watched(FileMetadataStore):
        def put_all(self, values: Any) -> None:
            for key, value in values.items():
                if key.endswith("ResponseMessage"):
                    written.append(json.loads(value)["statusCode"])
            super().put_all(values)

    start(Watched(str(tmp_path)))
    store = FileMetadataStore(str(tmp_path))
    store.put(f"{NAMESPACE}/{uuid4()}.ContainerPlacementRequestMessage", b"half a mess")
    old = ContainerPlacementRequestMessage(uuid4(), "app-0", "0", STANDBY, 1, standby=StandbyAction.STOP)
    store.put(f"{NAMESPACE}/{old.uuid}.ContainerPlacementRequestMessage", old.to_json().encode())
    client = MooringClient(store)
    client.wait(client.control_standby("0", StandbyAction.STOP, "app-1"), 30, lambda _: None)
    wait_until(lambda: not [key for key in store.all(NAMESPACE) if "Request" in key], "the requests to go", 30)
    assert sorted(written) == ["ACCEPTED", "BAD_REQUEST", "IN_PROGRESS", "SUCCEEDED"]
    assert [status for status in written if status != "BAD_REQUEST"] == ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]
    assert client.container_status(old.uuid) is None


def test_with_factor_one_the_answer_is_bad_request(
    start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    application = start(factor=1)
    assert main(["control-standby", "--metadata", str(tmp_path), "--processor-id", "0", "stop", "--wait"]) == 1
    shown = capsys.readouterr()
    assert "BAD_REQUEST" in shown.err and "replication.factor is 1" in shown.err
    assert [line for line in application.bridge.said if ") BAD_REQUEST: " in line], "at WARN"


def test_a_store_that_goes_away_holds_nobody_up_and_is_asked_again(start: Start) -> None:
    store = Unsteady(uuid4().hex)
    application = start(store)
    store.is_away = True
    wait_until(lambda: bool(application.bridge.said), "a word about the store", 30)
    polls = application.bridge.polls
    wait_until(lambda: application.bridge.polls > polls + 5, "the loop to go on", 30)
    store.is_away = False
    client = MooringClient(store)
    answer = client.wait(client.control_standby("0", StandbyAction.STOP, "app-1"), 30, lambda _: None)
    assert answer is not None and answer.status_code is StatusCode.SUCCEEDED
    assert len([line for line in application.bridge.said if "can not read or write" in line]) == 1
