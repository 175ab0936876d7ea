"""Without host affinity: no task is placed, and a processor is replaced wherever an executor comes."""

from __future__ import annotations

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.model import events
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, HostAction, StatusCode
from tests.unit.agent.builders import TIMING, Story
from tests.unit.agent.moving import DONE, a_new_agent, restarts
from tests.unit.agent.queues import Queues

REFUSED = "spark.mooring.host.affinity.enabled is false: expected a processor and ANY_HOST"


@pytest.fixture
def queues() -> Queues:
    story = Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(has_host_affinity=False))))
    story.joins("1@a", "2@b")
    story.after(TIMING.debounce_ms)
    story.plans("q")
    return Queues(story)


def test_nothing_is_published_and_processors_have_no_tasks(queues: Queues) -> None:
    fleet = queues.story.state.fleet
    assert not queues.story.rows and fleet.queries.keys() == {"q"}
    assert [list(one.actives) for one in fleet.model.containers.values()] == [[], []]


@pytest.mark.parametrize("destination", [LAST_SEEN, STANDBY, "a", "b", "any_host"])
def test_a_destination_is_refused(queues: Queues, destination: str) -> None:
    asked = queues.places("0", destination)
    queues.is_read()
    assert queues.changes(asked) == ["BAD_REQUEST"] and queues.message(asked).startswith(REFUSED)


def test_so_are_standbys_and_hosts(queues: Queues) -> None:
    requests = [queues.asks("STOP"), *(queues.asks_of_host(action, "a") for action in HostAction)]
    queues.is_read()
    for asked in requests:
        assert queues.changes(asked) == ["BAD_REQUEST"] and queues.message(asked).startswith(REFUSED)


@pytest.mark.parametrize("is_noticed_late", [False, True])
def test_any_host_ends_the_executor_and_takes_the_next_one_that_comes(queues: Queues, is_noticed_late: bool) -> None:
    asked = queues.places("0", ANY_HOST)
    queues.is_read()
    assert restarts(queues) == ["1"] and queues.changes(asked) == DONE[:2]
    queues.story.take(events.ExecutorRestarting(queues.story.now_ms, str(asked.uuid), "1"))
    if not is_noticed_late:
        queues.story.dies("1")
    queues.story.joins("3@c")
    queues.after()
    assert queues.changes(asked) == DONE and "processor 0 is on executor 3 at c" in queues.message(asked)
    assert queues.story.state.fleet.processors.keys() == {"0", "1"}


def test_an_unknown_processor_is_named(queues: Queues) -> None:
    asked = queues.places("7", ANY_HOST)
    queues.is_read()
    assert "there is no processor 7: expected one of 0, 1" in queues.message(asked)


def test_a_lost_executor_is_followed_by_one_of_any_host(queues: Queues) -> None:
    queues.story.dies("2")
    queues.story.joins("3@c")
    assert queues.story.state.fleet.executor_of == {"0": "1", "1": "3"}


def test_a_new_agent_gives_each_executor_the_processor_that_it_had(queues: Queues) -> None:
    queues.story.dies("1")
    queues.story.joins("3@c")
    queues.after()
    asked = queues.places("0", ANY_HOST)
    queues.is_read()
    again = a_new_agent(queues.story)
    again.requests = queues.requests
    again.responses = queues.responses
    again.is_read()
    assert again.story.state.fleet.executor_of == {"0": "3", "1": "2"}
    assert again.responses[asked.uuid].status_code is StatusCode.IN_PROGRESS


def test_a_processor_that_has_come_elsewhere_is_remembered_there(queues: Queues) -> None:
    queues.story.dies("2")
    queues.story.joins("3@c")
    queues.after(TIMING.debounce_ms)
    assert queues.story.saved[-1].model.containers["1"].location_id == "c"
