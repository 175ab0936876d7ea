"""The agent's loop between a bridge and a store that the test holds in its hands."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from functools import partial

import pytest

from mooring.agent.loop import Agent
from mooring.agent.records_writer import RecordsWriter
from mooring.drain import RunningQuery
from mooring.errors import AgentError
from mooring.metadata import MemoryMetadataStore
from mooring.model import events
from mooring.model.orders import Copies, PublishPlan, Rows, WantHosts
from mooring.records.records import Records


class Bridge:
    """A JVM that tells a list of events at each poll and is gone after the last. Its executors take up all versions."""

    def __init__(self, *news: list[events.Event]) -> None:
        self.news = list(news)
        self.plans: list[Rows] = []
        self.copies: list[Copies] = []
        self.said: list[str] = []
        self.logged: list[str] = []
        self.told: list[str] = []
        self.executors: set[str] = set()
        self.picked_up: list[events.Event] = []
        self.drains_asked: list[tuple[str | None, ...]] = []
        self.ended: list[tuple[str, str]] = []
        self.running: tuple[RunningQuery, ...] = ()
        self.hosts_wanted: list[tuple[str, ...]] = []

    def hello(self) -> list[events.Event]:
        return self.poll_events(0)

    def poll_events(self, timeout_ms: int) -> list[events.Event]:
        if not self.news and not self.picked_up:
            raise AgentError("the driver is gone")
        told = [*self.picked_up, *(self.news.pop(0) if self.news else [])]
        self.picked_up = []
        self.executors |= {event.executor for event in told if isinstance(event, events.ExecutorRegistered)}
        return told

    def announce(self, version: int) -> None:
        self.picked_up = [events.PlanPickedUp(0, executor, version) for executor in sorted(self.executors)]

    def publish(self, plan: PublishPlan) -> bool:
        self.plans.append(plan.rows)
        self.copies.append(plan.copies)
        return True

    def restart(self, request: str, executor: str, wait_ms: int) -> None:
        raise AssertionError("nobody has asked for that")

    def forget_restart(self, request: str) -> None:
        raise AssertionError("nobody has asked for that")

    def want_hosts(self, wanted: WantHosts) -> None:
        self.hosts_wanted.append(wanted.hosts)

    def request_drains(self, queries: tuple[str | None, ...]) -> None:
        self.drains_asked.append(queries)

    def note_drains(self, after: Mapping[str, frozenset[str]]) -> None:
        pass

    def end(self, query: str, how: str, zero_input: bool) -> None:
        self.ended.append((query, how))

    def queries(self) -> tuple[RunningQuery, ...]:
        return self.running

    def warn(self, message: str) -> None:
        self.said.append(message)
        self.logged.append(message)

    def info(self, message: str) -> None:
        self.told.append(message)
        self.logged.append(message)

    def metrics(self, values: dict[str, float]) -> None:
        pass


def run(bridge: Bridge, name: str | None = None, step_ms: int = 4_000) -> str:
    """Until the driver is gone; each look at the clock finds it a step later. Answers with the store's name."""
    name = name or uuid.uuid4().hex
    memory = RecordsWriter(partial(Records, MemoryMetadataStore(name)), bridge.said.append)
    ticks = iter(range(0, 10**9, step_ms))
    with pytest.raises(AgentError, match="gone"):
        Agent(bridge, lambda *_: memory, now_ms=lambda: next(ticks)).run()
    memory.close()
    return name


def started(**settings: str) -> events.Event:
    keys = {f"spark.mooring.{name.replace('_', '.')}": value for name, value in settings.items()}
    return events.ApplicationStarted(0, "app-1", "clicks", keys, "file:/ck")


def executors(*hosts: str) -> list[events.Event]:
    return [events.ExecutorRegistered(0, str(number), host, 1) for number, host in enumerate(hosts)]


def planned(partitions: int = 6, batch: int = 0) -> events.Event:
    return events.QueryPlanned(0, "q", "run", "q", "file:/ck/q", batch, {0: partitions})


def planned_other(partitions: int) -> events.Event:
    return events.QueryPlanned(0, "r", "run of r", "r", "file:/ck/r", 0, {0: partitions})


def sizes(rows: Rows) -> list[int]:
    chosen = [row[0] for row in rows["q"].values()]
    return sorted(chosen.count(executor) for executor in set(chosen))


def test_the_grouper_of_the_settings_plans() -> None:
    bridge = Bridge([started(grouper="single-container"), *executors("a", "b")], [planned()], [], [])
    run(bridge)
    assert sizes(bridge.plans[-1]) == [6]
    assert bridge.said == []


def test_the_log_says_which_tasks_a_plan_moves() -> None:
    bridge = Bridge([started(), *executors("a")], [planned()], [], executors("a", "b")[1:], *[[] for _ in range(40)])
    run(bridge)
    moved = [line for line in bridge.said if "from processor 0 at a to 1 at b (to share the load)" in line]
    assert len(moved) == 1 and moved[0].startswith("job model "), bridge.said


def test_the_log_says_that_an_executor_is_lost_before_it_says_which_tasks_move_for_that() -> None:
    settings = started(standby_replication_factor="2")
    both = [[settings, *executors("a", "b")], [planned()], *[[] for _ in range(5)]]
    bridge = Bridge(*both, [events.ExecutorLost(100_000, "0", "killed")], *[[] for _ in range(5)])
    run(bridge)
    (lost,) = (at for at, line in enumerate(bridge.logged) if "executor 0 on a counts as lost" in line)
    moved = [at for at, line in enumerate(bridge.logged) if "(processor 0 has no executor)" in line]
    assert moved and lost < moved[0], bridge.logged


def test_the_replication_factor_of_the_settings_is_planned_and_survives_the_agent() -> None:
    """The second agent finds an executor gone: the JVM has sent its tasks to their copies, and there they stay.

    Also when another executor comes to the same host.
    """
    first = Bridge([started(standby_replication_factor="2"), *executors("a", "b", "c")], [planned()], [], [])
    name = run(first)
    assert {len(held) for held in first.copies[-1]["q"].values()} == {1}
    living = [event for event in executors("a", "b", "c") if event.executor != "0"]  # type: ignore[attr-defined]
    second = Bridge(
        [events.PlanInForce(0, 50, first.plans[-1]), started(standby_replication_factor="2"), *living, planned()],
        [],
        [events.ExecutorRegistered(0, "9", "a", 1)],
        [],
        [],
    )
    run(second, name)
    fell_to = {p: next(id for id in row if id != "0") for p, row in first.plans[-1]["q"].items()}
    assert {p: row[0] for p, row in second.plans[-1]["q"].items()} == fell_to
    assert "9" in {held[0] for held in second.copies[-1]["q"].values()}


def test_a_grouper_that_can_not_be_loaded_is_said_once_and_the_default_one_goes_on() -> None:
    bridge = Bridge([started(grouper="no.such.module:Grouper"), *executors("a", "b")], [planned()], [], [])
    run(bridge)
    assert sizes(bridge.plans[-1]) == [3, 3]
    assert len(bridge.said) == 1
    assert "spark.mooring.grouper=no.such.module:Grouper" in bridge.said[0] and "host-aware" in bridge.said[0]


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"uuid": "88b0"}', b"\xff\xfe", b'{"containers": {"0": {}}}'])
def test_a_job_model_that_can_not_be_read_is_said_and_the_one_before_it_counts(damaged: bytes) -> None:
    name = run(Bridge([started(), *executors("a", "b")], [planned()], [], []))
    store = MemoryMetadataStore(name)
    assert store.all("job-models/")
    store.put("job-models/99", damaged)
    bridge = Bridge([started(), *executors("a", "b")], [planned()], [], [])
    run(bridge, name)
    assert sizes(bridge.plans[-1]) == [3, 3]
    assert len([line for line in bridge.said if "job model 99 of the last run is ignored" in line]) == 1


def test_an_agent_that_comes_later_takes_all_in_before_it_decides_anything() -> None:
    """Two queries, an hour old: it plans for both at once, and gives nobody up for what happened before its time."""
    first = Bridge([started(), *executors("a", "b"), planned(6), planned_other(6)], [], [], [])
    name = run(first)
    told = [events.PlanInForce(0, 50, first.plans[-1]), started(), *executors("a", "b"), planned(6), planned_other(6)]
    late = Bridge(told, [], [], [])
    run(late, name)
    assert not late.said
    assert all({"q", "r"} <= plan.keys() for plan in late.plans)
    in_force, newest = first.plans[-1]["q"], late.plans[-1]["q"]
    assert {p: row[0] for p, row in newest.items()} == {p: row[0] for p, row in in_force.items()}


def test_an_agent_that_comes_after_losses_leaves_the_tasks_of_all_queries_where_the_jvm_runs_them() -> None:
    """A row is made for the loss of a whole host. Here one of two executors is lost, on two hosts."""
    begun, lost = started(standby_replication_factor="3"), {"1", "4"}
    living, queries = executors("a", "a", "b", "b", "c", "c"), [planned(24), planned_other(24)]
    first = Bridge([begun, *living, *queries], [], [], [])
    name = run(first)
    remaining = [event for event in living if event.executor not in lost]  # type: ignore[attr-defined]
    second = Bridge([events.PlanInForce(0, 50, first.plans[-1]), begun, *remaining, *queries], *[[] for _ in range(6)])
    run(second, name)
    for query in ("q", "r"):
        fell_to = {p: next(id for id in row if id not in lost) for p, row in first.plans[-1][query].items()}
        assert {p: row[0] for p, row in second.plans[-1][query].items()} == fell_to


def test_the_status_says_the_name_since_when_it_runs_and_which_queries_have_ended() -> None:
    ended = events.QueryEnded(0, "q", "run", "")
    name = run(Bridge([started(), *executors("a")], [planned()], [planned_other(2)], [ended], [], []))
    status = json.loads(MemoryMetadataStore(name).get("status") or b"")
    assert (status["name"], status["since"]) == ("clicks", 0)
    assert [one["name"] for one in status["queries"]] == ["r"]
    assert [(one["name"], one["id"], one["state"]) for one in status["ended-queries"]] == [("q", "q", "ended")]


def test_the_end_of_a_query_is_in_the_status_though_the_driver_is_gone_a_moment_later() -> None:
    name = run(Bridge([started(), *executors("h1"), planned()], [], [events.QueryEnded(0, "q", "run", "")]), step_ms=1)
    status = json.loads(MemoryMetadataStore(name).get("status") or b"")
    assert not status["queries"] and [one["name"] for one in status["ended-queries"]] == ["q"]


def test_a_query_that_runs_again_has_not_ended() -> None:
    ended = events.QueryEnded(0, "q", "run", "")
    name = run(Bridge([started(), *executors("a")], [planned()], [ended], [], [planned()], [], []))
    status = json.loads(MemoryMetadataStore(name).get("status") or b"")
    assert [one["name"] for one in status["queries"]] == ["q"] and "ended-queries" not in status
