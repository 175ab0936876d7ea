"""Requests about standbys, and about hosts that hold some, while executors and agents die."""

from __future__ import annotations

import json
import time
from pathlib import Path
from uuid import UUID

import pytest

from mooring.placement import LAST_SEEN
from tests.integration.support.job_with_operator import HOSTS, operated_with_copies

pytestmark = pytest.mark.heavy


def test_a_standby_arrives_though_its_source_dies_and_its_processor_waits_for_that(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=30) as (there, here):
        processor = here.processor_at(HOSTS[1])
        before = here.executor_of(processor)
        here.succeeds(here.places(f"{processor}-0", HOSTS[0]))
        there.wait_until_caught_up()
        assert here.copied_at(processor) == {HOSTS[0]}

        goes = here.begins_what_is_held_up(f"{processor}-0")
        restarts = here.places(processor, LAST_SEEN)
        here.begins(restarts, "waiting")
        source = next(one for one in here.cluster.executors() if one.host == HOSTS[0])
        source.kill()
        here.job.wait_until(lambda: source.id not in here.job.executors(), "the loss to be noticed", 60)
        here.begins(restarts, "waiting")  # still, when it could have begun long ago
        here.cluster.resume_host(HOSTS[2])
        here.succeeds(goes)
        here.succeeds(restarts)
        assert here.executor_of(processor) != before
        there.wait_until_settled(3)
        there.load.feed(there.job)
        there.wait_until_caught_up()
        here.waits_for(processor, HOSTS[1])
        assert here.copied_at(processor) == {HOSTS[2]}


def test_all_are_restarted_one_after_the_other_and_each_task_falls_to_a_warm_copy(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=60) as (there, here):
        before = {id: here.executor_of(id) for id in map(here.processor_at, HOSTS)}
        fetched = len(there.openings())
        for uuid in [here.places(id, LAST_SEEN) for id in before]:
            here.succeeds(uuid)
        assert all(here.executor_of(id) != executor for id, executor in before.items())
        to_copies, to_any = there.failovers()
        assert to_copies >= 8 and to_any == 0, "each of eight tasks was on one that ended, and had a copy then"
        assert all(one["remote-files"] == 0 for one in there.openings()[fetched:]), "which was warm"
        there.wait_until_settled(3)
        there.load.feed(there.job)
        there.wait_until_caught_up()


def test_a_host_with_copies_is_emptied_by_the_command_though_the_agent_dies_and_refills(tmp_path: Path) -> None:
    with operated_with_copies(tmp_path, files=36) as (there, here):
        drains = UUID(json.loads(here.commands("drain-host", HOSTS[1], "--json").stdout)["uuid"])
        here.begins(drains, "emptying")
        here.kills_the_agent()
        here.succeeds(drains)
        there.load.feed(there.job)
        there.wait_until_caught_up()
        assert there.load.sizes() == [0, 4, 4]
        assert HOSTS[1] not in {one["location"] for one in there.load.status()["tasks"]}, "no task and no copy"
        assert there.failovers() == (0, 0)
        refused = here.commands(
            "place-container", "--processor-id", here.processor_at(HOSTS[0]), "--destination-host", HOSTS[1], "--wait"
        )
        assert refused.returncode == 1 and "drained" in refused.stderr, refused

        opened = here.commands("open-host", HOSTS[1], "--wait")
        assert opened.returncode == 0, opened
        there.load.feed(there.job)
        there.job.wait_until(lambda: there.load.sizes() == [2, 3, 3], "the host to refill", 120)
        there.load.feed(there.job)
        there.wait_until_caught_up()
        [query] = there.load.status()["queries"]
        here.kills_the_agent()
        killed_ms = time.time() * 1000
        there.job.wait_until(lambda: there.load.status()["at"] > killed_ms, "the status of the next one", 60)
        assert there.load.status()["queries"] == [query], "it knows the last batch, though none has ended since"
