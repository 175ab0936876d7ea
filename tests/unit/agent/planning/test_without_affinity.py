"""Without host affinity: no task is placed, and a processor is replaced wherever an executor comes."""

from __future__ import annotations

import pytest

from mooring.agent.core import Mind
from mooring.agent.state.fleet import Fleet
from mooring.model import events
from mooring.placement import ANY_HOST, LAST_SEEN, STANDBY, HostAction, StatusCode
from tests.unit.agent.builders import TIMING, Story
from tests.unit.agent.desks import Desks
from tests.unit.agent.moving import DONE, a_new_agent, restarts

REFUSED = "spark.mooring.host.affinity.enabled is false: expected a processor and ANY_HOST"


@pytest.fixture
def desks() -> Desks:
    story = Story(mind=Mind(fleet=Fleet(timing=TIMING, has_host_affinity=False)))
    story.joins("1@a", "2@b")
    story.after(TIMING.debounce_ms)
    story.plans("q")
    return Desks(story)


def test_nothing_is_published_and_processors_have_no_tasks(desks: Desks) -> None:
    fleet = desks.story.mind.fleet
    assert not desks.story.rows and fleet.queries.keys() == {"q"}
    assert [list(one.actives) for one in fleet.model.containers.values()] == [[], []]


@pytest.mark.parametrize("destination", [LAST_SEEN, STANDBY, "a", "b", "any_host"])
def test_a_destination_is_refused(desks: Desks, destination: str) -> None:
    asked = desks.places("0", destination)
    desks.is_read()
    assert desks.changes(asked) == ["BAD_REQUEST"] and desks.message(asked).startswith(REFUSED)


def test_so_are_standbys_and_hosts(desks: Desks) -> None:
    requests = [desks.asks("STOP"), *(desks.asks_of_host(action, "a") for action in HostAction)]
    desks.is_read()
    for asked in requests:
        assert desks.changes(asked) == ["BAD_REQUEST"] and desks.message(asked).startswith(REFUSED)


@pytest.mark.parametrize("is_noticed_late", [False, True])
def test_any_host_ends_the_executor_and_takes_the_next_one_that_comes(desks: Desks, is_noticed_late: bool) -> None:
    asked = desks.places("0", ANY_HOST)
    desks.is_read()
    assert restarts(desks) == ["1"] and desks.changes(asked) == DONE[:2]
    desks.story.take(events.ExecutorRestarting(desks.story.now_ms, str(asked.uuid), "1"))
    if not is_noticed_late:
        desks.story.dies("1")
    desks.story.joins("3@c")
    desks.after()
    assert desks.changes(asked) == DONE and "processor 0 is on executor 3 at c" in desks.message(asked)
    assert desks.story.mind.fleet.processors.keys() == {"0", "1"}


def test_an_unknown_processor_is_named(desks: Desks) -> None:
    asked = desks.places("7", ANY_HOST)
    desks.is_read()
    assert "there is no processor 7: expected one of 0, 1" in desks.message(asked)


def test_a_lost_executor_is_followed_by_one_of_any_host(desks: Desks) -> None:
    desks.story.dies("2")
    desks.story.joins("3@c")
    assert desks.story.mind.fleet.executor_of == {"0": "1", "1": "3"}


def test_a_new_agent_gives_each_executor_the_processor_that_it_had(desks: Desks) -> None:
    desks.story.dies("1")
    desks.story.joins("3@c")
    desks.after()
    asked = desks.places("0", ANY_HOST)
    desks.is_read()
    again = a_new_agent(desks.story)
    again.requests = desks.requests
    again.responses = desks.responses
    again.is_read()
    assert again.story.mind.fleet.executor_of == {"0": "3", "1": "2"}
    assert again.responses[asked.uuid].status_code is StatusCode.IN_PROGRESS


def test_a_processor_that_has_come_elsewhere_is_remembered_there(desks: Desks) -> None:
    desks.story.dies("2")
    desks.story.joins("3@c")
    desks.after(TIMING.debounce_ms)
    assert desks.story.saved[-1].model.containers["1"].location_id == "c"
