"""An operator moves and restarts processors of a job that runs: no state is fetched again, and the answer is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mooring.metadata import NamespacedMetadataStore, open_metadata_store
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, ContainerPlacementMetadataStore, StatusCode
from mooring.placement import ContainerPlacementRequestMessage as Request
from mooring.placement.store import NAMESPACE
from tests.integration.support.job_with_operator import HOSTS, operated, operated_with_copies


@pytest.mark.parametrize("changelog", ["false", pytest.param("true", marks=pytest.mark.heavy)])
def test_a_processor_goes_to_another_host_and_fetches_nothing_when_it_is_there(tmp_path: Path, changelog: str) -> None:
    with operated(tmp_path, changelog) as here:
        assert not here.standby_threads() and "standby of counts" not in here.job.log, "factor 1 costs nothing"
        processor = here.processor_at(HOSTS[1])
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        fetched, tasks = here.load.counter("restore-bytes-remote"), here.tasks_of(processor)
        moves = here.places(processor, HOSTS[2])
        here.job.wait_until(lambda: here.is_switched(processor, HOSTS[2]), "the switch, between two batches", 60)
        here.succeeds(moves)
        here.waits_for(processor, HOSTS[2])
        assert here.load.counter("restore-bytes-remote") == fetched, "what it needs was there before it came"
        assert here.standby_threads() and "standby of counts" in here.job.log
        assert here.tasks_of(processor) == tasks and here.load.counter("moves") == len(tasks), "and no other moved"

        before = here.executor_of(processor)
        here.succeeds(here.places(processor, LAST_SEEN))
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 30)
        here.load.feed(here.job)  # the last batch may have run before the executor had come
        here.waits_for(processor, HOSTS[2])


@pytest.mark.heavy
def test_what_has_no_executor_to_go_to_stays_where_it_is(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here:
        processor = here.processor_at(HOSTS[1])
        executor, tasks = here.executor_of(processor), here.tasks_of(processor)
        uuid = here.places(processor, "10.9.8.7", expiry_ms=3_000)
        here.fails(uuid, "no executor was there for 10.9.8.7 within 3000 ms", feeds=False)
        here.load.feed(here.job)
        here.waits_for(processor, HOSTS[1])
        assert (here.executor_of(processor), here.tasks_of(processor)) == (executor, tasks)
        assert here.load.counter("moves") == 0


@pytest.mark.heavy
def test_what_can_not_be_is_refused_with_the_reason_and_holds_nobody_up(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here, open_metadata_store(here.load.metadata) as store:
        written, records = ContainerPlacementMetadataStore(store), NamespacedMetadataStore(store, NAMESPACE)
        processor = here.processor_at(HOSTS[1])
        tasks = here.tasks_of(processor)
        good = Request(uuid4(), here.job.application, processor, HOSTS[2], timestamp=2)

        def asks(text: Callable[[str], str] = str, **changed: object) -> UUID:
            """As the good one but for this, whatever a client of ours would say to it."""
            uuid = uuid4()
            fields = {**good.as_json(), "uuid": str(uuid), "timestamp": 1, **changed}
            form = json.dumps({name: value for name, value in fields.items() if value is not None})
            records.put(f"{uuid}.{Request.__name__}", text(form).encode())
            return uuid

        foreign = replace(good, uuid=uuid4(), deployment_id="app-of-another")
        written.write_response(foreign.answered(StatusCode.ACCEPTED, "", 1))
        written.write_request(foreign)
        refused = {
            asks(lambda form: form[: len(form) // 2]): "no JSON text",
            asks(processorId=None): "processorId is missing: expected the id of a processor",
            asks(requestExpiry=-1): "requestExpiry is -1: expected milliseconds",
            asks(processorId="77"): "there is no processor 77: expected one of 0, 1, 2",
            asks(destinationHost="no host!"): f"expected a host, {ANY_HOST} or {LAST_SEEN}; nearest: ",
            asks(destinationHost="any_host"): f"nearest: {ANY_HOST}",
            asks(destinationHost=STANDBY): "has no standby: spark.mooring.standby.replication.factor is 1",
            asks(destinationHost=STANDBY, standby="STOP"): "replication.factor is 1: no processor has standbys",
        }
        written.write_request(good)
        here.succeeds(good.uuid)
        here.waits_for(processor, HOSTS[2])
        for uuid, words in refused.items():
            answer = written.read_response(uuid)
            assert answer is not None and answer.status_code is StatusCode.BAD_REQUEST, (words, answer)
            assert words in answer.response_message
        assert here.load.counter("moves") == len(tasks)

        version = here.load.status()["version"]
        written.write_request(good)  # the same uuid again
        here.job.wait_until(lambda: not written.all().requests, "the store to be cleared", 30)
        here.load.feed(here.job)
        assert here.load.status()["version"] == version and here.load.counter("moves") == len(tasks)
        assert written.read_response(foreign.uuid) is None and not written.all().malformed


@pytest.mark.heavy
def test_a_destination_that_dies_sends_the_processor_back(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here:
        processor = here.processor_at(HOSTS[1])
        source = here.executor_of(processor)
        uuid = here.places(processor, HOSTS[2])
        here.job.wait_until(lambda: here.location_of(processor) == HOSTS[2], "the switch", 60)
        here.cluster.kill_host(HOSTS[2])
        here.fails(uuid, f"it is back on executor {source}")
        here.load.feed(here.job)
        here.waits_for(processor, HOSTS[1])
        here.cluster.revive_host(HOSTS[2])
        here.succeeds(here.places(processor, ANY_HOST))
        here.job.wait_until(lambda: here.location_of(processor) != HOSTS[1], "the status to show it", 30)
        here.load.feed(here.job)
        here.waits_for(processor, here.location_of(processor))


@pytest.mark.heavy
def test_standby_takes_over_where_copies_are(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=18) as (there, here):
        processor = here.processor_at(HOSTS[1])
        refused = here.answer(here.places(processor, HOSTS[2]), feeds=False)
        assert refused.status_code is StatusCode.BAD_REQUEST and "STANDBY" in refused.response_message
        copies = here.copied_at(processor)
        moves = here.places(processor, STANDBY)
        there.job.wait_until(
            lambda: here.location_of(processor) in copies and there.load.is_in_force(),
            "the switch, between two batches",
            60,
        )
        answer = here.answer(moves)
        assert answer.status_code is StatusCode.SUCCEEDED and "were fetched" not in answer.response_message, answer
        there.load.feed(there.job)
        here.waits_for(processor, here.location_of(processor))
        there.wait_until_caught_up()
        assert here.location_of(processor) not in here.copied_at(processor)
        assert HOSTS[1] in here.copied_at(processor), "the old place is the standby now"


@pytest.mark.heavy
def test_a_host_is_drained_stays_empty_and_refills(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=30) as here:
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        fetched = here.load.counter("restore-bytes-remote")
        drains = here.client.drain_host(HOSTS[1], here.load.status()["application"])
        here.job.wait_until(lambda: here.load.sizes() == [0, 4, 4], "the switches, between two batches", 120)
        here.job.wait_until(here.load.is_in_force, "the last plan to be obeyed", 60)
        here.succeeds(drains)
        assert here.tasks_of(here.processor_at(HOSTS[1])) == []
        assert here.load.counter("restore-bytes-remote") == fetched, "what they need was there before it came"
        for _ in range(3):
            here.load.feed(here.job)
        assert here.load.sizes() == [0, 4, 4]
        assert here.load.status()["drained-hosts"] == [{"location": HOSTS[1], "state": "drained"}]
        here.succeeds(here.client.open_host(HOSTS[1], here.load.status()["application"]))
        here.load.feed(here.job)
        here.job.wait_until(lambda: here.load.sizes() == [2, 3, 3], "the host to refill", 120)
        here.succeeds(here.client.drain_host(HOSTS[2], here.load.status()["application"]))  # while batches run
        here.job.wait_until(lambda: here.load.sizes() == [0, 4, 4], "the others to have all tasks", 30)
        assert here.tasks_of(here.processor_at(HOSTS[2])) == []


@pytest.mark.heavy
def test_a_standby_goes_to_another_host_is_restarted_there_and_takes_over(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=30) as (there, here):
        processor = here.processor_at(HOSTS[1])
        tasks = here.tasks_of(processor)
        refused = here.answer(here.places(f"{processor}-0", HOSTS[1]), feeds=False)
        assert refused.status_code is StatusCode.BAD_REQUEST and f"{processor} itself" in refused.response_message
        here.succeeds(here.places(f"{processor}-0", HOSTS[2]))
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[2]}
        here.succeeds(here.places(f"{processor}-0", LAST_SEEN))
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[2]}
        here.kills_the_executor_of(processor)
        there.wait_for_failovers(warm=len(tasks))
        there.load.feed(there.job)
        ran = {one["name"]: one["location"] for one in there.load.status()["tasks"] if one["mode"] == "Active"}
        assert {ran[task] for task in tasks} <= {HOSTS[2], HOSTS[1]}, "some may have come back to the new executor"


@pytest.mark.heavy
def test_with_standbys_a_processor_goes_to_any_host_and_is_restarted_in_place(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=30) as (there, here):
        processor = here.processor_at(HOSTS[1])
        here.succeeds(here.places(f"{processor}-0", HOSTS[2]))
        here.succeeds(here.places(processor, ANY_HOST))
        here.waits_for(processor, HOSTS[0])
        there.wait_until_caught_up()
        before = here.executor_of(processor)
        here.succeeds(here.places(processor, LAST_SEEN))
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 30)
        assert here.location_of(processor) == HOSTS[0]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "dies",
    [
        pytest.param("source", id="a source that dies while the destination warms up leaves the tasks there"),
        pytest.param("agent", id="an agent that dies while a processor is on its way is followed by one that goes on"),
    ],
)
def test_a_move_succeeds_although_something_dies(tmp_path: Path, dies: str) -> None:
    with operated(tmp_path, "false", files=24) as here:
        processor = here.processor_at(HOSTS[1])
        uuid = here.begins_what_is_held_up(processor)
        if dies == "source":
            here.kills_the_executor_of(processor)
        else:
            here.kills_the_agent()
        here.cluster.resume_host(HOSTS[2])
        here.succeeds(uuid)
        here.waits_for(processor, HOSTS[2])
