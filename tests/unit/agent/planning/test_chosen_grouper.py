"""`spark.mooring.grouper`: what the agent does with a grouper that is not the default one, or is no good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.errors import InvalidSettingError
from mooring.grouping import choose_grouper
from mooring.model.orders import LogLine
from tests.unit.agent.builders import TIMING, Story

HERE = "tests.unit.agent.users_groupers"


def story_of(grouper: str, weights: str = "tasks") -> Story:
    grouping = choose_grouper(grouper, weights)
    return Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(grouping))))


def running(grouper: str, partitions: int = 6, executors: tuple[str, ...] = ("1@a", "2@b", "3@c")) -> Story:
    story = story_of(grouper)
    story.joins(*executors)
    story.after(TIMING.debounce_ms)
    story.plans("q", partitions)
    return story


def said(story: Story) -> list[str]:
    return [order.message for order in story.orders if isinstance(order, LogLine)]


@pytest.mark.parametrize(
    ("grouper", "sizes"),
    [
        ("host-aware", [2, 2, 2]),
        ("group-by-container-ids", [2, 2, 2]),
        ("group-by-container-count:2", [3, 3]),
        ("group-by-container-count:9", [2, 2, 2]),
        ("single-container", [6]),
        (f"{HERE}:RoundRobin", [2, 2, 2]),
        (f"{HERE}:OnOneAsItSays", [6]),
    ],
)
def test_the_chosen_grouper_makes_the_plan(grouper: str, sizes: list[int]) -> None:
    if grouper.endswith(":9"):
        story = running(grouper, partitions=6)
        assert "6 tasks for 9 containers" in said(story)[0] and "made by host-aware" in said(story)[0]
    else:
        story = running(grouper)
        assert said(story) == []
    assert story.sizes("q") == sizes


def test_the_job_model_says_which_grouper_made_it() -> None:
    config = running("group-by-container-count:2").saved[-1].model.config
    assert config == {"spark.mooring.grouper": "group-by-container-count:2", "spark.mooring.grouper.weights": "tasks"}


def test_a_fixed_count_keeps_its_processors_when_others_come() -> None:
    story = running("group-by-container-count:2")
    before = story.first_choice("q")
    story.joins("4@d")
    story.after(TIMING.debounce_ms)
    assert story.first_choice("q") == before and said(story) == []


@pytest.mark.parametrize(
    ("grouper", "why"),
    [
        ("OnOne", "6 of 6 tasks; even on 3 is 2 to 2 (the promise: even sizes)"),
        ("NeverTwiceTheSame", "(the promise: grouping its own output changes nothing)"),
        ("Raises", "raised ValueError: the map is upside down"),
        ("Leaves", "raised SystemExit: 3"),
        ("Forgets", "is on no processor (the promise: each task exactly once, on a living processor)"),
        ("Invents", 'there is no processor "a processor of its own"'),
        ("AnswersNothing", "gave NoneType, not a set of ContainerModel"),
        ("AnswersText", "gave a str among its containers"),
    ],
)
def test_the_first_plan_is_made_by_the_default_grouper_when_the_users_is_no_good(grouper: str, why: str) -> None:
    story = running(f"{HERE}:{grouper}")
    assert story.sizes("q") == [2, 2, 2]
    assert why in said(story)[-1]
    assert f"spark.mooring.grouper={HERE}:{grouper} was refused" in said(story)[-1]
    assert said(story)[-1].endswith("; this plan is made by host-aware")


def test_a_later_plan_that_is_no_good_leaves_the_last_one_in_force() -> None:
    story = running(f"{HERE}:FailsLater", executors=("1@a", "2@b"))
    before, models = story.first_choice("q"), len(story.saved)
    story.joins("3@c")
    story.after(TIMING.debounce_ms)
    assert story.first_choice("q") == before and len(story.saved) == models
    assert said(story)[-1].endswith("RuntimeError: three is a crowd; the last plan stays in force")
    assert story.after(1_000) == [], "it is not tried again until something changes"


def test_a_lost_processor_makes_the_last_plan_impossible_so_the_default_grouper_plans() -> None:
    story = running(f"{HERE}:RoundRobin", partitions=8, executors=("1@a", "2@b", "3@c", "4@d"))
    broken = choose_grouper(f"{HERE}:Raises")
    story.state = replace(story.state, fleet=replace(story.state.fleet, settings=PlacementSettings(broken)))
    story.dies("4")
    story.after(TIMING.rebind_timeout_ms)
    assert story.sizes("q") == [3, 3, 2]
    assert said(story)[-1].endswith("this plan is made by host-aware")


def test_movement_is_checked_where_the_grouper_promises_it() -> None:
    story = running(f"{HERE}:ClaimsFewMoves", partitions=8, executors=("1@a", "2@b"))
    story.joins("3@c")
    story.after(TIMING.debounce_ms)
    assert "(the promise: fewest moves)" in said(story)[-1]
    careless = running(f"{HERE}:RoundRobin", partitions=8, executors=("1@a", "2@b"))
    careless.joins("3@c")
    careless.after(TIMING.debounce_ms)
    assert said(careless) == [] and careless.sizes("q") == [3, 3, 2]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no.such.module:Grouper", "ModuleNotFoundError"),
        (f"{HERE}:Missing", "AttributeError"),
        ("tests.unit.agent.a_module_that_exits:Grouper", "SystemExit: this module ends the process"),
        (f"{HERE}:NoGrouper", "not a class that extends"),
        (f"{HERE}:sys", "not a class that extends"),
        (f"{HERE}:WantsMore", "map_of_the_house"),
        (f"{HERE}:Unfinished", "group"),
        ("group-by-container-count:0", "number of containers is 0"),
        ("nonsense", "can not be loaded"),
    ],
)
def test_a_grouper_that_can_not_be_had_says_why(name: str, why: str) -> None:
    with pytest.raises(InvalidSettingError, match=f"grouper={name}") as raised:
        choose_grouper(name)
    assert why in str(raised.value)


def test_a_users_grouper_that_takes_no_weights_evens_out_tasks() -> None:
    assert not choose_grouper(f"{HERE}:RoundRobin", "bytes").by_bytes
    assert choose_grouper(f"{HERE}:FailsLater", "bytes").by_bytes
    assert choose_grouper("group-by-container-ids", "bytes").by_bytes
