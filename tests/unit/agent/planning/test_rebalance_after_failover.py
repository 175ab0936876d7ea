"""After a loss, who takes tasks over gives away as many of its own as warm copies allow."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from mooring.agent.planning.rebalance_after_failover import rebalanced
from mooring.agent.state.fleet_parts import OngoingRequests, Overrides, PlacementSettings, ProcessorMove
from mooring.grouping import choose_grouper
from mooring.model import ContainerModel, events
from tests.unit.agent.builders import TIMING, Story, running

ALL = ("1", "2", "3")


def after_an_uneven_loss(behind: int | None = 0, copies_on: tuple[str, ...] = ALL, **changes: object) -> Story:
    """Eight tasks on three executors, 1@a and so on; 2 is lost, by whose copies 1 gets five tasks, and 3 three.

    `changes` are made to the fleet before that; the processors are 0, 1 and 2.
    """
    story = running(partitions=8, factor=2)
    if behind is not None:
        story.sees_copies(*copies_on, behind=behind)
    story.state = replace(story.state, fleet=replace(story.state.fleet, **changes))
    story.dies("2")
    return story


def uneven_and_warm() -> Story:
    """Five tasks on processor 0, three on 2; their copies have been seen since."""
    story = after_an_uneven_loss(behind=None)
    story.sees_copies(*ALL)
    return story


def sizes(containers: Iterable[ContainerModel]) -> dict[str, int]:
    return {held.processor_id: len(held.actives) for held in containers}


def test_a_task_goes_where_its_copy_is_warm_and_its_old_place_is_the_copy() -> None:
    before, story = after_an_uneven_loss(behind=None), after_an_uneven_loss()
    assert (before.sizes("q"), story.sizes("q")) == ([5, 3], [4, 4])
    (moved,) = (p for p, executor in story.first_choice("q").items() if executor != before.first_choice("q")[p])
    source, target = before.first_choice("q")[moved], story.first_choice("q")[moved]
    assert before.copies["q"][moved] == (target,) and story.copies["q"][moved] == (source,)
    assert {p: held for p, held in story.copies["q"].items() if p != moved} == {
        p: held for p, held in before.copies["q"].items() if p != moved
    }
    assert story.rows["q"][moved][:2] == (target, source)


def test_all_is_in_one_version_of_the_plan() -> None:
    before, story = running(partitions=8, factor=2), after_an_uneven_loss()
    assert story.state.fleet.model.version == before.state.fleet.model.version + 1


def test_the_tasks_that_were_lost_stay_where_the_jvm_has_sent_them() -> None:
    whole, story = running(partitions=8, factor=2), after_an_uneven_loss()
    for partition, row in whole.rows["q"].items():
        if row[0] == "2":
            assert story.first_choice("q")[partition] == next(id for id in row if id != "2")


@pytest.mark.parametrize("behind", [1, 2, None])
def test_only_copies_that_were_seen_warm_count(behind: int | None) -> None:
    assert after_an_uneven_loss(behind).sizes("q") == ([4, 4] if behind == 1 else [5, 3])


def test_a_copy_that_only_the_fuller_one_has_warm_does_not_count() -> None:
    assert after_an_uneven_loss(copies_on=("1", "2")).sizes("q") == [5, 3]
    assert after_an_uneven_loss(copies_on=("3",)).sizes("q") == [4, 4]


@pytest.mark.parametrize(
    "grouper", ["host-aware by bytes", "group-by-container-count:2", "tests.unit.agent.users_groupers:RoundRobin"]
)
def test_where_it_is_not_the_number_on_all_that_is_to_be_even_nothing_moves(grouper: str) -> None:
    name, _, by = grouper.partition(" by ")
    assert after_an_uneven_loss(settings=PlacementSettings(choose_grouper(name, by or "tasks"), 2)).sizes("q") == [5, 3]


@pytest.mark.parametrize("processor", ["0", "2"])
def test_where_an_operator_has_said_something_nothing_moves(processor: str) -> None:
    assert after_an_uneven_loss(overrides=Overrides(stopped_standbys=frozenset({processor}))).sizes("q") == [5, 3]
    assert after_an_uneven_loss(overrides=Overrides(pinned_standbys={f"{processor}-0": "b"})).sizes("q") == [5, 3]
    assert after_an_uneven_loss(ongoing=OngoingRequests(moves={processor: ProcessorMove("1", "3")})).sizes("q") == [
        5,
        3,
    ]


@pytest.mark.parametrize(("executor", "host"), [("1", "a"), ("3", "c")])
def test_nothing_moves_from_or_to_what_is_to_end(executor: str, host: str) -> None:
    assert after_an_uneven_loss(overrides=Overrides(drained=frozenset({host}))).sizes("q") == [5, 3]
    assert after_an_uneven_loss(ongoing=OngoingRequests(restarts={"a request": executor})).sizes("q") == [5, 3]


@pytest.mark.parametrize("partitions", [13, 14, 15])
def test_no_task_goes_to_a_host_that_has_just_lost_an_executor(partitions: int) -> None:
    story = running(partitions=partitions, executors=("1@a", "2@a", "3@b", "4@b", "5@c", "6@c"), factor=2)
    story.sees_copies(*story.state.fleet.executors)
    before = story.first_choice("q")
    story.dies("3")
    now = story.first_choice("q")
    assert "3" not in now.values(), "its tasks have copies elsewhere"
    assert {p for p, executor in now.items() if executor == "4"} <= {p for p, on in before.items() if on == "4"}


def test_tasks_that_were_taken_over_stay() -> None:
    fleet = uneven_and_warm().state.fleet
    full = fleet.model.containers["0"]
    assert sizes(rebalanced(fleet, list(fleet.model.containers.values()), {"another": "0"})) == {"0": 4, "1": 0, "2": 4}
    all_of_it = dict.fromkeys(full.actives, "0")
    assert sizes(rebalanced(fleet, list(fleet.model.containers.values()), all_of_it)) == {"0": 5, "1": 0, "2": 3}


def test_an_executor_that_has_as_much_to_do_for_other_queries_gets_no_more() -> None:
    story = uneven_and_warm()
    story.plans("r", 2)
    fleet, containers = story.state.fleet, dict(story.state.fleet.model.containers)
    others = next(query.tasks for query in fleet.queries.values() if query.id == "r")
    containers["2"] = ContainerModel.of("2", [*containers["2"].tasks.values(), *others], containers["2"].location_id)
    assert sizes(rebalanced(fleet, list(containers.values()), {"another": "0"})) == {"0": 5, "1": 0, "2": 5}


def test_nothing_moves_where_all_is_even_as_can_be() -> None:
    story = running(partitions=9, factor=2)
    story.sees_copies(*ALL)
    before = story.first_choice("q")
    story.dies("2")
    assert story.sizes("q") == [5, 4]
    assert all(story.first_choice("q")[p] == executor for p, executor in before.items() if executor != "2")


@pytest.mark.parametrize("seed", range(5))
def test_one_host_after_the_other_leaves_two_that_have_as_much_to_do(seed: int) -> None:
    """Each comes back after 4 s, and has its share again before the next is lost."""
    rng = random.Random(seed)
    story = running(partitions=8, factor=2)
    for number in range(6):
        story.sees_copies(*story.state.fleet.executors)
        victim = rng.choice(sorted(story.state.fleet.executors))
        host = story.state.fleet.executors[victim].location
        story.dies(victim)
        assert story.sizes("q") == [4, 4]
        story.after(4_000)
        story.joins(f"{10 + number}@{host}")
        for _ in range(6):
            story.after(TIMING.debounce_ms)
            story.sees_copies(*story.state.fleet.executors)
            story.take(events.BatchEnded(story.now_ms, "q", 1, 500, story.first_choice("q"), 0, 0, 0))
        assert story.sizes("q") == [3, 3, 2]
