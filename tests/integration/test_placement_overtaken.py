"""Requests that something overtakes: their processor is gone, or another request is about the same host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.support.job_with_operator import HOSTS, operated

pytestmark = pytest.mark.heavy


def test_what_is_asked_of_a_processor_fails_once_it_is_gone(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=20, conf={"spark.mooring.processor.rebind.timeout": "5s"}) as here:
        processor = here.processor_at(HOSTS[1])
        reserves = here.places(processor, "10.9.8.7", expiry_ms=120_000)
        here.begins(reserves, "reserving")
        waits = here.places(processor, HOSTS[2])
        here.begins(waits, "waiting")
        here.cluster.kill_host(HOSTS[1])
        for uuid in (reserves, waits):
            here.fails(uuid, f"processor {processor} is gone")
        here.job.wait_until(lambda: here.load.sizes() == [4, 4], "the others to have its tasks", 60)
        here.load.feed(here.job)


def test_a_host_that_is_drained_meanwhile_is_no_destination_any_more(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=24) as here:
        processor, application = here.processor_at(HOSTS[1]), here.load.status()["application"]
        goes = here.begins_what_is_held_up(processor)
        drains = here.client.drain_host(HOSTS[2], application)
        here.fails(goes, f"host {HOSTS[2]} is drained meanwhile: the source was not touched", feeds=False)
        here.cluster.resume_host(HOSTS[2])
        here.succeeds(drains)
        for _ in range(2):  # the status of the first batch is there after the second
            here.load.feed(here.job)
        assert here.ran_at(processor) == {HOSTS[1]} and here.tasks_of(here.processor_at(HOSTS[2])) == []


def test_a_host_that_is_opened_while_it_is_drained_keeps_what_it_has(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=24) as here:
        processor, application = here.processor_at(HOSTS[1]), here.load.status()["application"]
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        tasks = here.tasks_of(processor)
        for host in (HOSTS[0], HOSTS[2]):
            here.cluster.pause_host(host)  # nothing is warmed up there
        drains = here.client.drain_host(HOSTS[1], application)
        here.begins(drains, "emptying")
        opens = here.client.open_host(HOSTS[1], application)
        here.fails(drains, "was opened again", feeds=False)
        for host in (HOSTS[0], HOSTS[2]):
            here.cluster.resume_host(host)
        here.succeeds(opens)
        for _ in range(2):  # the status of the first batch is there after the second
            here.load.feed(here.job)
        assert here.tasks_of(processor) == tasks and here.ran_at(processor) == {HOSTS[1]}
        assert here.load.counter("moves") == 0
