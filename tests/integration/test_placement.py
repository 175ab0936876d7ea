"""An operator moves and restarts processors of a job that runs: no state is fetched again, and the answer is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, StatusCode
from tests.integration.operating import HOSTS, Operator, operated
from tests.integration.warm import warm


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
        answer = here.answer(here.places(processor, "10.9.8.7", expiry_ms=3_000))
        assert answer.status_code is StatusCode.FAILED and "10.9.8.7" in answer.response_message
        assert here.ran_at(processor) == {HOSTS[1]}
        assert here.answer(here.places("77", HOSTS[0])).status_code is StatusCode.BAD_REQUEST


@pytest.mark.heavy
def test_a_destination_that_dies_sends_the_processor_back(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here:
        processor = here.processor_at(HOSTS[1])
        uuid = here.places(processor, HOSTS[2])
        here.job.wait_until(lambda: here.location_of(processor) == HOSTS[2], "the switch", 60)
        here.cluster.kill_host(HOSTS[2])
        assert here.answer(uuid).status_code is StatusCode.FAILED
        here.waits_for(processor, HOSTS[1])
        here.cluster.revive_host(HOSTS[2])
        here.succeeds(here.places(processor, ANY_HOST))


@pytest.mark.heavy
def test_standby_takes_over_where_copies_are(tmp_path: Path) -> None:
    with warm(tmp_path, files=18) as there:
        here = Operator(there.cluster, there.load, there.job)
        processor = here.processor_at(HOSTS[1])
        refused = here.answer(here.places(processor, HOSTS[2]), feeds=False)
        assert refused.status_code is StatusCode.BAD_REQUEST and "STANDBY" in refused.response_message
        here.succeeds(here.places(processor, STANDBY))
        there.job.wait_until(lambda: here.location_of(processor) != HOSTS[1], "the status to show it", 30)
        there.wait_until_caught_up()
        here.client.close()


@pytest.mark.heavy
def test_a_host_is_drained_stays_empty_and_refills(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=30) as here:
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        fetched = here.load.counter("restore-bytes-remote")
        drains = here.client.drain_host(HOSTS[1], here.load.status()["application"])
        here.job.wait_until(lambda: here.load.sizes() == [0, 4, 4], "the switches, between two batches", 120)
        here.job.wait_until(here.load.is_obeyed, "the last plan to be obeyed", 60)
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
    with warm(tmp_path, files=30) as there:
        here = Operator(there.cluster, there.load, there.job)
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
        next(one for one in there.cluster.executors() if one.id == here.executor_of(processor)).kill()
        there.wait_for_failovers(warm=len(tasks))
        there.load.feed(there.job)
        ran = {one["name"]: one["location"] for one in there.load.status()["tasks"] if one["mode"] == "Active"}
        assert {ran[task] for task in tasks} <= {HOSTS[2], HOSTS[1]}, "some may have come back to the new executor"
        here.client.close()


@pytest.mark.heavy
def test_with_standbys_a_processor_goes_to_any_host_and_is_restarted_in_place(tmp_path: Path) -> None:
    with warm(tmp_path, files=30) as there:
        here = Operator(there.cluster, there.load, there.job)
        processor = here.processor_at(HOSTS[1])
        here.succeeds(here.places(f"{processor}-0", HOSTS[2]))
        here.succeeds(here.places(processor, ANY_HOST))
        here.waits_for(processor, HOSTS[0])
        there.wait_until_caught_up()
        before = here.executor_of(processor)
        here.succeeds(here.places(processor, LAST_SEEN))
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 30)
        assert here.location_of(processor) == HOSTS[0]
        here.client.close()


@pytest.mark.heavy
def test_a_source_that_dies_while_the_destination_warms_up_leaves_the_tasks_there(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=24) as here:
        processor = here.processor_at(HOSTS[1])
        uuid = here.begins_what_is_held_up(processor)
        next(one for one in here.cluster.executors() if one.id == here.executor_of(processor)).kill()
        here.cluster.resume_host(HOSTS[2])
        here.succeeds(uuid)
        here.waits_for(processor, HOSTS[2])


@pytest.mark.heavy
def test_an_agent_that_dies_while_a_processor_is_on_its_way_is_followed_by_one_that_goes_on(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=24) as here:
        processor = here.processor_at(HOSTS[1])
        uuid = here.begins_what_is_held_up(processor)
        here.kills_the_agent()
        here.cluster.resume_host(HOSTS[2])
        here.succeeds(uuid)
        here.waits_for(processor, HOSTS[2])
