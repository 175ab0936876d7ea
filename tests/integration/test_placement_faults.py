"""What goes wrong while an operator's request is carried out: each is answered, and the answer of the job is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.placement import ANY_HOST, LAST_SEEN, StatusCode
from tests.integration.support.gated_job import GatedJob
from tests.integration.support.job_with_operator import HOSTS, operated, operated_with_copies


@pytest.mark.heavy
def test_hosts_that_die_on_either_side_of_a_move(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=20) as here:
        processor = here.processor_at(HOSTS[1])
        uuid = here.begins_what_is_held_up(processor)
        here.cluster.kill_host(HOSTS[2])
        here.fails(uuid, "the source was not touched", feeds=False)
        assert here.ran_at(processor) == {HOSTS[1]}
        here.cluster.revive_host(HOSTS[2])
        here.job.wait_until(lambda: len(here.job.executors()) == 3, "the third executor", 120)

        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        uuid = here.places(processor, HOSTS[2])
        here.begins(uuid, "switching")
        for host in HOSTS[1:]:
            here.cluster.kill_host(host)
        here.fails(uuid, "its tasks run on any host")
        for host in HOSTS[1:]:
            here.cluster.revive_host(host)
        here.job.wait_until(lambda: len(here.job.executors()) == 3, "three executors", 120)
        here.load.feed(here.job)


@pytest.mark.heavy
def test_restarts_that_are_not_over_in_time_and_agents_that_die_over_them(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=20) as here:
        processor = here.processor_at(HOSTS[1])
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        here.fails(here.places(processor, LAST_SEEN, expiry_ms=1), "within 1 ms", feeds=False)
        here.job.wait_until(lambda: here.executor_of(processor) != "None", "an executor, the same or another one", 60)
        here.waits_for(processor, HOSTS[1])

        before = here.executor_of(processor)
        uuid = here.places(processor, LAST_SEEN)
        here.begins(uuid, "restarting")
        here.kills_the_agent()
        here.succeeds(uuid)
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 30)

        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        uuid = here.places(processor, HOSTS[2])
        here.begins(uuid, "switching")
        here.kills_the_agent()
        here.succeeds(uuid)
        here.waits_for(processor, HOSTS[2])


@pytest.mark.heavy
def test_a_processor_that_crashes_while_requests_wait_comes_back_all_the_same(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=20) as here:
        processor = here.processor_at(HOSTS[1])
        before = here.executor_of(processor)
        first = here.places(processor, "10.9.8.7", expiry_ms=60_000)
        here.begins(first, "reserving")
        waits = here.places(processor, HOSTS[2])
        here.begins(waits, "waiting")
        here.kills_the_executor_of(processor)
        here.job.wait_until(lambda: here.executor_of(processor) not in (before, "None"), "another executor", 40)
        here.load.feed(here.job)
        here.waits_for(processor, HOSTS[1])
        here.fails(first, "no executor was there for 10.9.8.7 within 60000 ms", feeds=False)
        here.succeeds(waits)
        here.waits_for(processor, HOSTS[2])


@pytest.mark.heavy
def test_a_restart_of_an_executor_that_always_has_a_task_is_given_up(tmp_path: Path) -> None:
    load = GatedJob(tmp_path)
    with operated_with_copies(tmp_path, load=load) as (there, here):
        processor = here.processor_at(HOSTS[1])
        executor = here.executor_of(processor)
        load.shut_gate(HOSTS[1])
        load.offer(1)
        there.job.wait_until(lambda: load.held(HOSTS[1]) is not None, "a task that waits", 60)
        uuid = here.places(processor, LAST_SEEN, expiry_ms=10_000)
        here.fails(uuid, f"executor {executor} could not be ended within 10000 ms: it runs on", feeds=False)
        load.open_gate(HOSTS[1])
        there.job.wait_until(load.is_idle, "the batch to be over", 60)
        load.feed(there.job)
        there.wait_until_caught_up()
        assert here.executor_of(processor) == executor and here.ran_at(processor) == {HOSTS[1]}


@pytest.mark.heavy
def test_an_agent_that_dies_while_a_standby_is_on_its_way(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=30) as (there, here):
        processor = here.processor_at(HOSTS[1])
        uuid = here.begins_what_is_held_up(f"{processor}-0")
        here.kills_the_agent()
        here.cluster.resume_host(HOSTS[2])
        here.succeeds(uuid)
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[2]}


@pytest.mark.heavy
def test_a_destination_with_a_broken_disk_is_given_up_and_nothing_is_changed(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=24) as here:
        processor = here.processor_at(HOSTS[1])
        tasks, before = here.tasks_of(processor), here.executor_of(processor)
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        for kept in here.cluster.hosts[HOSTS[2]].local_store.iterdir():
            kept.rename(tmp_path / kept.name)
            kept.touch()  # no directory can be made there
        uuid = here.places(processor, HOSTS[2])
        here.begins(uuid, "warming up")
        last = here.client.wait(uuid, 120, lambda news: None)
        assert last is not None and last.status_code is StatusCode.FAILED, last
        assert f"can be made at {HOSTS[2]} (" in last.response_message
        assert (here.executor_of(processor), here.tasks_of(processor)) == (before, tasks)
        here.load.feed(here.job)
        assert here.ran_at(processor) == {HOSTS[1]}


@pytest.mark.heavy
def test_a_standby_that_finds_no_executor_goes_to_any_host_or_loses_its_destination(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=24) as (there, here):
        processor = here.processor_at(HOSTS[1])
        standby = f"{processor}-0"
        nowhere = here.places(standby, "10.9.8.7", expiry_ms=3000)
        here.fails(nowhere, "no executor was there for 10.9.8.7 within 3000 ms", feeds=False)
        here.succeeds(here.places(standby, HOSTS[2]))
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[2]}
        here.succeeds(here.places(standby, ANY_HOST))
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[0]}, "neither where it was nor where the processor is"
        uuid = here.begins_what_is_held_up(standby)
        here.cluster.kill_host(HOSTS[2])
        here.fails(uuid, "no copy has moved", feeds=False)
        there.load.feed(there.job)
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[0]}
        here.cluster.revive_host(HOSTS[2])
        there.job.wait_until(lambda: len(there.job.executors()) == 3, "the third executor", 120)
        there.load.feed(there.job)
