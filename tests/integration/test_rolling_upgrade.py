"""Five executors replaced one after the other, three times; and a cluster that grows and shrinks, under load."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from mooring.model import JobModel, job_model_from_json
from mooring.records.open import open_records
from mooring.testing.cluster import SparkCluster
from tests.integration.support.file_fed_job import Load
from tests.seeds import seeded

PATIENT = {"spark.mooring.processor.rebind.timeout": "120s"}


@pytest.fixture
def chance() -> random.Random:
    return seeded()


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Load(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    with SparkCluster(hosts=5, executor_memory="512m", work_dir=tmp_path / "cluster") as cluster:
        yield cluster


def plan_of(load: Load) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Processor to its location and tasks."""
    processors = load.status().get("processors", [])
    return {row["id"]: (row["location"], tuple(row["tasks"])) for row in processors}


def bound(load: Load) -> set[str]:
    """The executors of processors."""
    return {row["executor"] for row in load.status().get("processors", []) if row["executor"]}


def models(load: Load) -> list[JobModel]:
    """The versions that are kept, the newest last."""
    with closing(open_records(load.metadata, {}, print)) as records:
        return [job_model_from_json(text) for _, text in sorted(records.job_models().items())]


def newest_model(load: Load) -> JobModel:
    return models(load)[-1]


def least_moves(load: Load, since: int) -> int:
    """The tasks that must move for evenness in the versions after `since`, where no processor left."""
    steps = [model for model in models(load) if model.version >= since]
    assert steps[0].version == since, "all versions are kept"
    return sum(map(_least, steps, steps[1:]))


def _least(before: JobModel, after: JobModel) -> int:
    """Whoever has most keeps most."""
    had = sorted((len(container.tasks) for container in before.containers.values()), reverse=True)
    has = sorted((len(container.tasks) for container in after.containers.values()), reverse=True)
    return sum(had) - sum(map(min, had, has))


def moved_from(load: Load, since: int) -> list[tuple[str, str]]:
    """For each move in the versions after `since`, the task and the location that it was moved from."""
    steps = [model for model in models(load) if model.version >= since]
    assert steps[0].version == since, "all versions are kept"
    return [
        (task, str(container.location_id))
        for earlier, later in pairwise(steps)
        for id, container in earlier.containers.items()
        for task in container.tasks
        if id not in later.containers or task not in later.containers[id].tasks
    ]


@pytest.mark.heavy
def test_a_rolling_upgrade_brings_every_task_back(load: Load, cluster: SparkCluster, chance: random.Random) -> None:
    load.offer(1)
    job = load.submit(cluster, PATIENT)
    job.wait_until(lambda: load.sizes() == [1, 1, 2, 2, 2], "an even plan", 240)
    job.wait_until(lambda: load.counter("batches") >= 1, "a batch", 120)
    start, moves = plan_of(load), load.counter("moves")
    for round_ in range(3):
        order = chance.sample(sorted(cluster.hosts), len(cluster.hosts))
        for number, host in enumerate(order):
            if number % 2 == 0 and round_ < 2:
                load.offer(1)
            before = bound(load)
            gone = cluster.kill_executor(host)
            job.wait_until(
                lambda before=before, gone=gone: gone.id not in bound(load) and len(bound(load) - before) == 1,
                f"a new executor on {host}",
                120,
            )
        assert plan_of(load) == start, "every task is back on its processor and location"
        print(f"round {round_}: order {order}, {load.counter('moves') - moves} moves")
    assert load.counter("moves") == moves
    load.offer_the_rest_and_finish(job)
    load.assert_right()


@pytest.mark.heavy
def test_two_hosts_five_hosts_three_hosts(load: Load, cluster: SparkCluster, chance: random.Random) -> None:
    first, *later = sorted(cluster.hosts)
    for host in later[1:]:
        cluster.kill_host(host)
    load.offer(2)
    job = load.submit(cluster)
    job.wait_until(lambda: load.sizes() == [4, 4], "an even plan on two hosts", 180)
    job.wait_until(lambda: load.counter("batches") >= 1, "a batch", 120)
    moves, before = load.counter("moves"), newest_model(load)
    for host in later[1:]:
        cluster.revive_host(host)
    job.wait_until(lambda: load.sizes() == [1, 1, 2, 2, 2], "an even plan on five hosts", 180)
    # Newcomers that join further apart than the debounce make several plans.
    least = least_moves(load, before.version)
    print(f"2 to 5 hosts: {load.counter('moves') - moves} moves, at least {least}")
    assert load.counter("moves") - moves == least > 0
    load.offer(2)
    moves, before = load.counter("moves"), newest_model(load)
    leaving = chance.sample([first, *later], 2)
    print(f"leaving: {leaving}")
    lost = {
        task
        for container in before.containers.values()
        if str(container.location_id) in leaving
        for task in container.tasks
    }
    for host in leaving:
        cluster.kill_host(host)
    job.wait_until(lambda: load.sizes() == [2, 3, 3], "an even plan on three hosts", 180)
    # The second loss may be noticed after tasks were planned on that host. Then these move twice.
    left = moved_from(load, before.version)
    assert {location for _, location in left} == set(leaving), "no task leaves a host that stays"
    assert {task for task, _ in left} == lost, "the tasks of the lost hosts move, and no others"
    assert len(set(left)) == len(left) == load.counter("moves") - moves, "each leaves a host once"
    load.offer_the_rest_and_finish(job)
    load.assert_right()
