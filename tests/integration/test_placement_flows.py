"""What operators do: by commands, before an executor is there, with two standbys, and before the job is restarted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.placement import StatusCode
from mooring.testing.cluster import SparkCluster
from tests.integration.support.file_fed_job import PARTITIONS, Load, first_plan_for
from tests.integration.support.job_with_operator import HOSTS, Operator, operated
from tests.integration.support.job_with_warm_copies import CHANGELOG, JobWithCopies, copies_in

pytestmark = pytest.mark.heavy


def test_by_the_commands(tmp_path: Path) -> None:
    with operated(tmp_path, "false") as here:
        here.job.wait_until(here.load.is_idle, "the batches to be over", 60)
        processor = here.processor_at(HOSTS[1])
        place = ["place-container", "--processor-id", processor, "--destination-host"]
        moved = here.commands(*place, HOSTS[2], "--wait")
        assert moved.returncode == 0 and f"at {HOSTS[2]}" in moved.stdout, moved
        here.load.feed(here.job)
        here.waits_for(processor, HOSTS[2])

        uuid = json.loads(here.commands(*place, HOSTS[1], "--json").stdout)["uuid"]
        here.job.wait_until(lambda: here.is_switched(processor, HOSTS[1]), "the switch", 60)
        here.load.feed(here.job)
        here.waits_for(processor, HOSTS[1])

        def last_word() -> str:
            return str(json.loads(here.commands("container-status", "--uuid", uuid, "--json").stdout)["statusCode"])

        here.job.wait_until(lambda: last_word() == "SUCCEEDED", "the command to say so", 30)

        refused = here.commands("place-container", "--processor-id", "77", "--destination-host", HOSTS[1], "--wait")
        assert refused.returncode == 1 and "there is no processor 77: expected one of 0, 1, 2" in refused.stderr
        negative = here.commands(*place, HOSTS[2], "--request-expiry=-1s")
        assert negative.returncode == 2 and "-1s" in negative.stderr
        assert here.location_of(processor) == HOSTS[1]


def test_an_executor_that_comes_before_the_request_expires_gets_the_processor(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=20) as here:
        processor = here.processor_at(HOSTS[1])
        tasks = here.tasks_of(processor)
        here.cluster.kill_host(HOSTS[2])
        here.job.wait_until(lambda: len(here.job.executors()) == 2, "the loss to be noticed", 60)
        uuid = here.places(processor, HOSTS[2], expiry_ms=120_000)
        here.begins(uuid, "reserving")
        here.load.feed(here.job)
        assert here.ran_at(processor) == {HOSTS[1]}, "nothing is changed while none is there"
        here.cluster.revive_host(HOSTS[2])
        here.succeeds(uuid)
        here.load.feed(here.job)
        here.waits_for(processor, HOSTS[2])
        assert here.tasks_of(processor) == tasks


def test_two_processors_are_on_their_way_at_once(tmp_path: Path) -> None:
    with operated(tmp_path, "false", files=24) as here:
        homes = {here.processor_at(host): host for host in HOSTS[:2]}
        first, second = homes
        tasks = {id: here.tasks_of(id) for id in homes}
        moves = [here.begins_what_is_held_up(first), here.places(second, HOSTS[2])]
        for uuid in reversed(moves):
            here.begins(uuid, "warming up")
        here.cluster.resume_host(HOSTS[2])
        for uuid in moves:
            here.succeeds(uuid)
        here.load.feed(here.job)
        for id in homes:
            here.waits_for(id, HOSTS[2])

        back = [here.places(id, host) for id, host in homes.items()]
        for uuid in back:
            here.succeeds(uuid)
        here.load.feed(here.job)
        for id, host in homes.items():
            here.waits_for(id, host)
        assert {id: here.tasks_of(id) for id in homes} == tasks


def test_a_move_outlives_the_application(tmp_path: Path) -> None:
    load = Load(tmp_path, files=16)
    conf = {CHANGELOG: "false", "spark.mooring.processor.rebind.timeout": "60s", **first_plan_for(len(HOSTS))}
    with SparkCluster(hosts=3, executor_memory="768m", work_dir=tmp_path / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster, conf)
        job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan", 120)
        load.feed(job)
        here = Operator(cluster, load, job)
        processor = here.processor_at(HOSTS[1])
        tasks = here.tasks_of(processor)
        here.succeeds(here.places(processor, HOSTS[2]))
        load.feed(job)
        here.waits_for(processor, HOSTS[2])
        job.wait_until(load.is_idle, "the batches to be over", 60)
        job.kill()
        here.close()

        again = load.submit(cluster, conf)
        load.offer(1)
        again.wait_until(lambda: load.status().get("application") == again.application, "a status of the new one", 120)
        there = Operator(cluster, load, again)
        load.feed(again)
        there.waits_for(processor, HOSTS[2])
        assert there.tasks_of(processor) == tasks
        assert load.counter("restore-bytes-remote") == 0, "all state was where it had run last"
        there.close()
        load.offer_the_rest_and_finish(again)
    load.assert_right()


@contextmanager
def two_copies_on_four_hosts(directory: Path) -> Iterator[tuple[JobWithCopies, Operator]]:
    """A job whose tasks have two standbys each."""
    load = Load(directory, files=30)
    conf = {
        CHANGELOG: "true",
        "spark.mooring.standby.replication.factor": "3",
        "spark.mooring.processor.rebind.timeout": "60s",
        **first_plan_for(4),
    }
    with SparkCluster(hosts=4, executor_memory="768m", work_dir=directory / "cluster") as cluster:
        load.offer(2)
        job = load.submit(cluster, conf)
        job.wait_until(lambda: load.sizes() == [2, 2, 2, 2], "an even plan", 120)
        load.feed(job)
        there = JobWithCopies(cluster, load, job)
        there.wait_until_caught_up(2 * PARTITIONS)
        here = Operator(cluster, load, job)
        yield there, here
        here.close()
        load.offer_the_rest_and_finish(job)
    load.assert_right()


def test_four_hosts_and_two_standbys(tmp_path: Path) -> None:
    with two_copies_on_four_hosts(tmp_path) as (there, here):
        status = there.load.status()
        hosts = sorted({one["location"] for one in status["processors"]})
        assert len(hosts) == 4
        processor = here.processor_at(hosts[1])
        tasks = here.tasks_of(processor)

        others = [host for host in hosts if host != hosts[1]]
        second = brought(there, here, f"{processor}-1", others)
        first = brought(there, here, f"{processor}-0", [host for host in others if host != second])
        assert first, "a host is left for it, whether or not the other one went"
        second = second or brought(there, here, f"{processor}-1", [host for host in others if host != first])
        assert second and here.copied_at(processor) == {first, second}
        taken = here.answer(here.places(f"{processor}-1", first), feeds=False)
        assert taken.status_code is StatusCode.BAD_REQUEST, taken
        assert f"another copy of {tasks[0]} is at {first}" in taken.response_message
        never_twice(there)

        (free,) = set(hosts) - {hosts[1], first, second}
        here.succeeds(here.places(processor, free))
        there.load.feed(there.job)
        here.waits_for(processor, free)
        there.wait_until_caught_up(2 * PARTITIONS)
        never_twice(there)

        moves = here.places(processor, hosts[1])
        here.begins(moves, "switching")
        next(one for one in there.cluster.executors() if one.id == here.executor_of(processor)).kill()
        last = here.answer(moves)
        assert last.status_code.is_final
        there.job.wait_until(lambda: len(there.job.executors()) == 4, "four executors", 120)
        there.wait_until_caught_up(2 * PARTITIONS)
        never_twice(there)


def brought(there: JobWithCopies, here: Operator, standby: str, hosts: list[str]) -> str | None:
    """Where of these it went: not where another copy is, nor where all of it was, which restarts it; else None."""
    id = standby.partition("-")[0]

    def is_wanted_at(host: str) -> bool:
        (shown,) = [one for one in there.load.status()["processors"] if one["id"] == id]
        return bool(shown.get("standbys-wanted-at", {}).get(standby) == host)

    for host in hosts:
        answer = here.answer(here.places(standby, host))
        there.wait_until_caught_up(2 * PARTITIONS)
        if answer.status_code is StatusCode.SUCCEEDED and is_wanted_at(host):
            return host
        assert answer.status_code is not StatusCode.FAILED, answer
    return None


def never_twice(there: JobWithCopies) -> None:
    """No two of an active and its copies are at one location."""
    status = there.load.status()
    places: dict[str, list[str]] = {}
    for one in status["tasks"]:
        if one["mode"] == "Active":
            places.setdefault(one["name"], []).append(one["location"])
    for copy in copies_in(status):
        task = next(name for name in places if f"-{name}-" in copy["name"])
        places[task].append(copy["location"])
    assert all(len(set(found)) == len(found) == 3 for found in places.values()), places
