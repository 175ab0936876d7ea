"""What a new agent makes of the records that it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.recovery import overrides_that_hold, recovered, recovered_late
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import Application, PlacementSettings
from mooring.placement.lifecycle import Phase
from mooring.records.operator_overrides import FAILED_WITH_ITS_ATTEMPT, FinalAnswer, OperatorOverrides, SavedProgress
from mooring.records.records import Remembered
from tests.unit.agent.builders import TIMING, Story, running

KEPT = OperatorOverrides(
    application="app-1",
    stopped=frozenset("0"),
    spare=frozenset("1"),
    carriers={"1": "7"},
    saved_progress={
        "switching": SavedProgress(Phase.SWITCHING.label, "1", "2"),
        "waiting": SavedProgress(Phase.WARMING_UP.label, "1", "2"),
    },
    done={"answered": FinalAnswer("SUCCEEDED", "done")},
    drained=frozenset("d"),
    pinned={"2-0": "a"},
    attempt="1",
)


def test_all_overrides_hold_for_a_new_agent_of_the_same_attempt() -> None:
    assert overrides_that_hold(Fleet(application=Application("app-1", "1")), KEPT, False) is KEPT


def test_a_later_attempt_fails_requests_that_were_replacing_an_executor_and_begins_the_others_anew() -> None:
    held = overrides_that_hold(Fleet(application=Application("app-1", "2")), KEPT, False)
    assert held.done == {"switching": FAILED_WITH_ITS_ATTEMPT, "answered": FinalAnswer("SUCCEEDED", "done")}
    assert not held.saved_progress and not held.carriers


@pytest.mark.parametrize("follows_another_driver", [False, True])
def test_of_another_application_the_places_hold_and_stopped_standbys_only_for_its_standby_driver(
    follows_another_driver: bool,
) -> None:
    held = overrides_that_hold(Fleet(application=Application("app-2")), KEPT, follows_another_driver)
    assert held == OperatorOverrides(
        stopped=KEPT.stopped if follows_another_driver else frozenset(),
        spare=KEPT.spare,
        drained=KEPT.drained,
        pinned=KEPT.pinned,
    )


def test_a_version_is_not_saved_again_by_an_agent_that_has_read_it() -> None:
    model = running().saved[-1].model
    assert recovered(AgentState(), Remembered(model), 0).saved_version == model.version
    assert recovered(AgentState(), Remembered(), 0).saved_version == -1


def test_records_that_are_read_late_move_no_task_and_the_next_version_is_above_theirs() -> None:
    story = running()
    before = story.first_choice("q")
    last = replace(story.saved[-1].model, version=40)
    story.state = recovered_late(story.state, Remembered(last, {"q/Partition 0": "z"}), story.now_ms)
    story.after(TIMING.debounce_ms)
    assert story.first_choice("q") == before
    assert story.saved[-1].model.version == 41


def test_overrides_that_are_read_late_are_about_processors_at_the_same_location_only() -> None:
    story = Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(replication_factor=2))))
    story.joins("1@a", "2@b", "3@c")
    story.after(TIMING.debounce_ms)
    story.plans("q")
    last = story.state.fleet.model
    elsewhere = replace(last, containers={**last.containers, "0": replace(last.containers["0"], location_id="z")})
    overrides = OperatorOverrides(stopped=frozenset("01"), pinned={"0-0": "c", "2-0": "a"})
    state = recovered_late(story.state, Remembered(elsewhere, overrides=overrides), story.now_ms)
    assert state.fleet.overrides.stopped_standbys == {"1"}
    assert state.fleet.overrides.pinned_standbys == {"2-0": "a"}
    assert state.fleet.timers.regroup_at_ms == story.now_ms
