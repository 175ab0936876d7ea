"""A request's phases: set by the transition table only."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from mooring.agent.requests.action import Action, InvalidTransitionError
from mooring.placement import ContainerPlacementRequestMessage
from mooring.placement.lifecycle import Happening, Phase

REQUEST = ContainerPlacementRequestMessage(UUID(int=7), "app-1", "4", "host-b", timestamp=90)


def warming_up() -> Action:
    action = Action.accepted(REQUEST, 100)
    return action.after(Happening.TURN_TO_MOVE, 200).after(Happening.EXECUTOR_FOUND, 300)


def test_a_phase_follows_the_transition_table_and_remembers_the_phases_before_it() -> None:
    action = warming_up()
    assert (action.phase, action.since_ms) == (Phase.WARMING_UP, 300)
    assert action.earlier == ((Phase.CREATED, 100), (Phase.WAITING, 100), (Phase.RESERVING, 200))


def test_an_illegal_transition_tells_the_story_of_the_request() -> None:
    with pytest.raises(InvalidTransitionError) as illegal:
        warming_up().after(Happening.REPLACED, 400)
    assert str(illegal.value) == (
        "a request that is warming up can not go on after: another executor has taken its place; "
        f"request {UUID(int=7)} (place processor 4 on host-b):"
        " created at 100, waiting at 100, reserving at 200, warming up at 300"
    )


def test_a_refused_request_was_never_accepted() -> None:
    action = Action(REQUEST, since_ms=100).after(Happening.CAN_NOT_BE_DONE, 100)
    assert action.phase is Phase.REFUSED and action.earlier == ((Phase.CREATED, 100),)


def test_nothing_follows_a_final_phase() -> None:
    done = replace(Action.accepted(REQUEST), phase=Phase.DONE)
    for happening in Happening:
        with pytest.raises(InvalidTransitionError, match=r"created at 0, done at 0$"):
            done.after(happening, 1)
