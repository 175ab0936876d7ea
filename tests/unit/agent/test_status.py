"""What the status says of hosts."""

from __future__ import annotations

from mooring.agent.status import Tally, status_of
from mooring.model import events
from tests.unit.agent.builders import running


def hosts_of(story):  # type: ignore[no-untyped-def]
    return status_of(story.mind.fleet, Tally(), 0)["hosts"]


def test_a_zone_is_shown_where_it_is_known() -> None:
    story = running(executors=("10@a", "9@a", "2@b"))
    assert hosts_of(story) == [{"location": "a", "executors": ["9", "10"]}, {"location": "b", "executors": ["2"]}]
    before = story.first_choice("q")
    assert story.take(events.ExecutorRegistered(story.now_ms, "2", "b", 1, "eu-1a")) == []
    assert hosts_of(story)[1] == {"location": "b", "executors": ["2"], "zone": "eu-1a"}
    assert story.first_choice("q") == before


def test_an_event_without_a_zone_is_read() -> None:
    form = {"event": "ExecutorRegistered", "at": 1, "executor": "2", "location": "b", "cores": 4}
    assert events.read_event(form) == events.ExecutorRegistered(1, "2", "b", 4, "")
    assert events.read_event({**form, "zone": "eu"}) == events.ExecutorRegistered(1, "2", "b", 4, "eu")


def test_a_measure_is_read() -> None:
    form = {"event": "StateMeasured", "at": 1, "executor": "2", "store": "file:/ck/state/0/3", "bytes": 7}
    assert events.read_event(form) == events.StateMeasured(1, "2", "file:/ck/state/0/3", 7)
