"""Which hosts the agent wants executors on, and when the JVM gets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.counters import Counters
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import Overrides, PlacementSettings
from mooring.agent.status import status_of
from mooring.model import events
from mooring.model.event_json import read_event
from mooring.model.orders import LogLine, WantHosts
from tests.unit.agent.builders import TIMING, Story


def on_yarn(master: str = "yarn", executors: int = 3, asked: tuple[str, ...] = (), **settings: Any) -> Story:
    story = Story(AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(asks_for_hosts=True, **settings))))
    story.take(
        events.ApplicationStarted(0, "app-1", "job", {}, "", master=master, executors=executors, hosts_asked=asked)
    )
    return story


def placed(story: Story, *executors: str) -> Story:
    """With a query whose tasks are placed on these executors."""
    story.joins(*executors)
    story.after(TIMING.debounce_ms)
    story.plans("q")
    assert story.rows["q"]
    return story


def wanted(story: Story) -> list[tuple[str, ...]]:
    return [order.hosts for order in story.orders if isinstance(order, WantHosts)]


def close(story: Story, host: str) -> None:
    overrides = Overrides(drained=frozenset({host}))
    story.state = replace(story.state, fleet=replace(story.state.fleet, overrides=overrides))


def test_the_events_are_read_from_their_json() -> None:
    form = {"event": "ExecutorRegistered", "at": 1, "executor": "7", "location": "r/h", "cores": 2, "host": "h"}
    assert read_event(form) == events.ExecutorRegistered(1, "7", "r/h", 2, host="h")
    started = {"event": "ApplicationStarted", "at": 1, "application": "a", "name": "n", "settings": {}}
    new = {"checkpoint-location": "", "executors": 3, "hosts-asked": ["h1", "h2"]}
    read = read_event(started | new)
    assert isinstance(read, events.ApplicationStarted)
    assert (read.executors, read.hosts_asked) == (3, ("h1", "h2"))


def test_the_first_plan_says_on_which_hosts_executors_are_wanted() -> None:
    story = on_yarn()
    story.joins("1@h2", "2@h3", "3@h4")
    story.after(TIMING.debounce_ms)
    assert not wanted(story)
    story.plans("q")
    assert wanted(story) == [("h2", "h3", "h4")]
    story.after(60_000)
    assert len(wanted(story)) == 1


def test_a_lost_executor_is_wanted_on_its_host_until_its_tasks_are_elsewhere_for_good() -> None:
    story = placed(on_yarn(), "1@h2", "2@h3", "3@h4")
    story.dies("2")
    story.after(1_000)
    assert wanted(story) == [("h2", "h3", "h4")]
    story.after(61_000)
    assert sorted(wanted(story)[-1]) == ["h2", "h4"]


def test_an_executor_that_comes_elsewhere_gets_the_tasks_of_the_lost_one() -> None:
    story = placed(on_yarn(), "1@h2", "2@h3", "3@h4")
    before = story.first_choice("q")
    story.dies("2")
    story.joins("4@h9")
    story.after(4_000)
    assert story.first_choice("q") == {task: "4" if id == "2" else id for task, id in before.items()}
    assert sorted(wanted(story)[-1]) == ["h2", "h4", "h9"]


def test_an_executor_that_comes_beside_the_others_gets_tasks_of_its_own() -> None:
    story = placed(on_yarn(executors=0), "1@h2", "2@h3", "3@h4")
    story.dies("2")
    story.joins("4@h9")
    assert {processor.location for processor in story.state.fleet.processors.values()} == {"h2", "h3", "h4", "h9"}


def test_no_executor_is_wanted_at_a_drained_host() -> None:
    story = placed(on_yarn(), "1@h2", "2@h3", "3@h4")
    close(story, "h3")
    story.after(1_000)
    assert wanted(story)[-1] == ("h2", "h4")


def test_after_the_last_query_the_hosts_stay_wanted() -> None:
    story = placed(on_yarn(), "1@h2", "2@h3", "3@h4")
    story.ends("q")
    story.dies("1", "2", "3")
    story.after(61_000)
    assert wanted(story) == [("h2", "h3", "h4")]


@pytest.mark.parametrize("master", ["spark://h1:7077", "local[2]"])
def test_other_cluster_managers_get_no_hosts(master: str) -> None:
    assert not wanted(placed(on_yarn(master), "1@h2", "2@h3", "3@h4"))


def test_a_location_that_is_no_host_is_wanted_at_its_host() -> None:
    story = on_yarn(location_provider="env:SLOT")
    for number in (1, 2):
        story.take(events.ExecutorRegistered(0, str(number), f"rack-{number}", 1, host=f"h{number}"))
    story.after(TIMING.debounce_ms)
    story.plans("q")
    assert wanted(story) == [("h1", "h2")]


def test_executors_that_come_before_the_application_has_its_id_count_as_given() -> None:
    story = Story()
    story.joins("1@h2", "2@h6")
    started = events.ApplicationStarted(0, "app-1", "job", {}, "", master="yarn", executors=2, hosts_asked=("h2", "h3"))
    assert [type(order) for order in story.take(started)] == [LogLine]
    status = status_of(story.state.fleet, Counters(), 0)
    assert status["allocation"] == {"asked": ["h2", "h3"], "not-given": ["h3"], "given-instead": ["h6"]}


def test_executors_on_other_hosts_are_logged_once_and_shown() -> None:
    story = on_yarn(asked=("h2", "h3", "h4"))
    story.joins("1@h2", "2@h6", "3@h4")
    story.after(1_000)
    lines = [order.message for order in story.orders if isinstance(order, LogLine)]
    assert lines == [
        "the cluster manager gave 1 of 3 executors on other hosts than asked for: on h6, not on h3;"
        " their state is fetched. If those hosts had room, the scheduler gave them up early:"
        " yarn.scheduler.capacity.node-locality-delay and .rack-locality-additional-delay say when"
    ]
    status = status_of(story.state.fleet, Counters(), 0)
    assert status["allocation"] == {"asked": ["h2", "h3", "h4"], "not-given": ["h3"], "given-instead": ["h6"]}


@pytest.mark.parametrize(("executors", "waits"), [(2, False), (3, True), (0, True)])
def test_the_first_plan_waits_for_the_last_run_only_while_executors_can_come(executors: int, waits: bool) -> None:
    story = on_yarn(executors=executors)
    story.joins("1@h2", "2@h3")
    story.after(4_000)
    fleet = story.state.fleet
    awaited = next(iter(fleet.processors.values()))
    story.state = replace(
        story.state,
        fleet=fleet.with_processor(replace(awaited, id="9", location="h4", executor=None, is_awaited=True)),
    )
    story.plans("q")
    assert (not story.rows) is waits


def on_kubernetes(provider: str = "kubernetes", asked: tuple[str, ...] = ()) -> Story:
    story = on_yarn("k8s://https://h1:6443", 2, asked, location_provider=provider)
    for number in (1, 2):
        location = "/".join(
            {"kubernetes": f"node-{number}", "env:DISK": "disk-1"}.get(part, "?") for part in provider.split("/")
        )
        story.take(events.ExecutorRegistered(0, str(number), location, 1, host=f"10.0.0.{number}"))
    return story


@pytest.mark.parametrize("provider", ["kubernetes", "kubernetes/env:DISK", "env:DISK/kubernetes"])
def test_on_kubernetes_nodes_are_wanted_and_the_nodes_of_living_executors_are_told(provider: str) -> None:
    story = on_kubernetes(provider)
    story.after(TIMING.debounce_ms)
    story.plans("q")
    assert [order for order in story.orders if isinstance(order, WantHosts)] == [
        WantHosts(("node-1", "node-2"), {"1": "node-1", "2": "node-2"})
    ]
    story.dies("2")
    story.after(1_000)
    last = [order for order in story.orders if isinstance(order, WantHosts)][-1]
    assert last == WantHosts(("node-1", "node-2"), {"1": "node-1"})


def test_on_kubernetes_a_drained_node_is_avoided() -> None:
    story = on_kubernetes()
    story.after(TIMING.debounce_ms)
    story.plans("q")
    close(story, "node-2")
    story.after(1_000)
    last = [order for order in story.orders if isinstance(order, WantHosts)][-1]
    assert (last.hosts, last.avoided) == (("node-1",), ("node-2",))


def test_addresses_of_pods_are_not_wanted() -> None:
    story = on_kubernetes("env:DISK")
    story.after(TIMING.debounce_ms)
    story.plans("q")
    assert not wanted(story)


def test_a_pod_that_came_to_another_node_is_said() -> None:
    story = on_kubernetes(asked=("node-1", "node-7"))
    story.after(TIMING.debounce_ms)
    story.plans("q")
    lines = [
        order.message for order in story.orders if isinstance(order, LogLine) and "on other hosts" in order.message
    ]
    assert len(lines) == 1 and "on node-2, not on node-7" in lines[0] and "yarn" not in lines[0]
    status = status_of(story.state.fleet, Counters(), 0)
    assert status["allocation"] == {"asked": ["node-1", "node-7"], "not-given": ["node-7"], "given-instead": ["node-2"]}
