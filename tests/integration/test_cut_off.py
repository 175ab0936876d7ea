"""A host whose link is cut: its executors run on, hear nothing and are not heard, and still reach the checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.network import HostNetwork, why_there_are_no_links
from tests.integration.support.gated_job import GatedJob
from tests.integration.support.job_with_warm_copies import CHANGELOG, JobWithCopies, warm

LIVENESS_SECONDS = 5
LIVENESS = {"spark.mooring.liveness.timeout": f"{LIVENESS_SECONDS}s"}
READABLE = {"spark.sql.streaming.stateStore.compression.codec": "zstd"}
SPREAD = {"spark.sql.files.maxPartitionBytes": "16k"}  # several tasks read a file, so each host has shuffle files


@pytest.fixture
def network() -> Iterator[HostNetwork]:
    """Three hosts; skips where there can be none."""
    if reason := why_there_are_no_links():
        pytest.skip(f"no hosts with a link of their own: {reason}")
    with HostNetwork(hosts=3) as network:
        yield network


def test_a_cut_link_is_silent_until_it_is_mended(network: HostNetwork) -> None:
    cut, other, _ = network.hosts
    assert network.reaches(cut, other) and network.reaches(cut, network.gateway)
    network.cut_link(cut)
    assert not network.reaches(cut, network.gateway) and not network.reaches(other, cut)
    assert network.reaches(other, network.gateway)
    network.mend_link(cut)
    assert network.reaches(other, cut)


@pytest.mark.heavy
def test_a_host_that_is_cut_off_counts_as_lost_and_does_no_harm_when_it_is_back(
    tmp_path: Path, network: HostNetwork
) -> None:
    with warm(tmp_path, LIVENESS, network=network) as here:
        cut = network.hosts[1]
        lost = here.tasks_of(cut)
        network.cut_link(cut)
        at, before, number = time.monotonic(), here.load.committed(), here.load.offer(1)
        here.job.wait_until(lambda: here.load.committed() > before, "a commit", 60)
        print(f"commits again {time.monotonic() - at:.1f} s after the link was cut")
        here.job.wait_until(lambda: here.load.is_answered(number), "what came after the cut to be committed", 60)
        print(f"what came after the cut is committed {time.monotonic() - at:.1f} s after it")
        here.load.feed(here.job)
        here.wait_for_failovers(lost)
        _mend(here, network, cut)


@pytest.mark.heavy
@pytest.mark.parametrize("changelog", ["false", "true"])
def test_what_a_task_that_was_given_up_commits_does_not_count(
    tmp_path: Path, network: HostNetwork, changelog: str
) -> None:
    load = GatedJob(tmp_path, files=8)
    with warm(tmp_path, {**LIVENESS, **READABLE, **SPREAD, CHANGELOG: changelog}, load=load, network=network) as here:
        cut = network.hosts[1]
        load.shut_gate(cut)
        load.offer(1)
        here.job.wait_until(lambda: load.held(cut) is not None, "a task to wait at the gate", 60)
        partition, batch = load.held(cut), load.committed()  # while it waits, no batch is committed
        assert partition is not None
        network.cut_link(cut)
        at = time.monotonic()
        here.job.wait_until(lambda: load.committed() > batch, "the batch to be committed without the task", 60)
        print(f"committed {time.monotonic() - at:.1f} s after the link was cut")
        (right,) = load.state_of(partition, batch + 1)
        assert right.stem == load.committed_name(partition, batch)

        load.open_gate(cut)
        here.job.wait_until(lambda: len(load.state_of(partition, batch + 1)) == 2, "the task to commit its state", 60)
        (zombie,) = set(load.state_of(partition, batch + 1)) - {right}
        print(f"partition {partition}: committed {right.name}, given up {zombie.name}")
        load.feed(here.job)
        _mend(here, network, cut)

    names = [load.committed_name(partition, number) for number in range(load.committed())]
    assert zombie.exists() and zombie.stem not in names and names[batch] == right.stem
    later = [file for name in names[batch + 1 :] for file in load.files_of(partition, name)]
    assert len(later) >= 3
    for file in later:
        assert not load.own_of(zombie, right) & load.named_in(file), f"{file.name} builds on what was given up"
    if changelog == "true":  # an SST file may be gone by the next version: it is merged with others
        assert any(load.own_of(right, zombie) & load.named_in(file) for file in later)


def _mend(here: JobWithCopies, network: HostNetwork, cut: str) -> None:
    """The link is back, and another executor in place of the one that was given up; two batches more."""
    before = here.pids_at(cut)
    network.mend_link(cut)
    here.load.feed(here.job)
    here.wait_until_replaced(cut, before)
    here.load.feed(here.job)
