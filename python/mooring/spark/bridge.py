"""The agent's end of the bridge to the driver's JVM, over Py4J.

Each method has the name of the JVM's method, in snake case. JSON strings only; docs/internals.md has the forms.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from py4j.protocol import Py4JError

from mooring.drain import RunningQuery, places
from mooring.errors import AgentError
from mooring.model.event_json import read_event
from mooring.model.events import Event
from mooring.model.orders import PublishPlan, WantHosts
from mooring.model.standing import Standing
from mooring.spark.gateway import connect


class JvmBridge:
    """A connection as Spark's own Python programs make it: port and secret are in the environment.

    Every call raises AgentError when the driver does not answer. The agent then ends; a living driver starts a new one.
    """

    def __init__(self) -> None:
        self._gateway = connect()
        self._bridge = self._gateway.jvm.io.mooring.agent.Bridge.instance()

    @property
    def jvm(self) -> Any:
        """Py4J's view of the JVM, for Hadoop's FileSystem and Delta."""
        return self._gateway.jvm

    def take_reports(self, most: int) -> str:
        """The executors' reports of committed state since the last call, at most `most` of them, as a JSON array."""
        return str(self._call("takeReports", most))

    def reports_written(self) -> None:
        """What was committed of the reports taken so far is written: the JVM need not keep it for a new agent."""
        self._call("reportsWritten")

    def hello(self) -> list[Event]:
        """Events that describe the whole state of the application now."""
        return _events(self._call("hello"))

    def poll_events(self, timeout_ms: int) -> list[Event]:
        """The new events; waits up to the timeout for the first. The call is also a heartbeat of the agent."""
        return _events(self._call("pollEvents", timeout_ms))

    def announce(self, version: int) -> None:
        """Announce a version to the executors; a PlanPickedUp event comes for each executor that has it."""
        self._call("announce", version)

    def publish(self, plan: PublishPlan) -> bool:
        """Put a plan in force from the next batch on; False when the JVM has a newer one."""
        return bool(self._call("publish", plan_as_json(plan)))

    def restart(self, request: str, executor: str, wait_ms: int) -> None:
        """End an executor when no task runs on it, within `wait_ms`. Acts once for each request."""
        self._call("restart", request, executor, wait_ms)

    def forget_restart(self, request: str) -> None:
        """Tell the driver that a request to restart an executor is over, and its answer is in the store."""
        self._call("forgetRestart", request)

    def want_hosts(self, wanted: WantHosts) -> None:
        """Have the cluster manager asked for executors on these hosts, now and at the next start."""
        self._call("wantHosts", json.dumps(asdict(wanted)))

    def request_drains(self, queries: tuple[str | None, ...]) -> None:
        """Tell the driver which queries are to be drained, by names or ids; None is every query."""
        self._call("requestDrains", json.dumps(queries))

    def note_drains(self, after: Mapping[str, frozenset[str]]) -> None:
        """Write into the checkpoints of the queries that they are to be drained.

        `after` maps the id of a query to the ids of queries that must be drained before it. If a query starts again
        before its drain is over, the drain goes on.
        """
        self._call("noteDrains", json.dumps({query: sorted(others) for query, others in after.items()}))

    def end(self, query: str, how: str, zero_input: bool) -> None:
        """Drain a query (`how` is DRAIN) or stop it (`how` is a StopMode's value); events report the progress.

        With `zero_input`, a query that is held at its start reads no input at all. A second call does nothing.
        """
        self._call("end", query, how, zero_input)

    def queries(self) -> tuple[RunningQuery, ...]:
        """The queries that run, also those without state."""
        return tuple(
            RunningQuery(
                form["query"],
                form["run"],
                form["name"],
                places(form["reads"]),
                places(form["writes"]),
                has_sources=form["ready"],
            )
            for form in json.loads(self._call("queries"))
        )

    def warn(self, message: str) -> None:
        """Write a warning into the driver's log."""
        self._call("warn", message)

    def warn_unless_ending(self, message: str) -> None:
        """Write a warning of trouble around the application, such as with a store; INFO while the application ends."""
        self._call("warnUnlessEnding", message)

    def info(self, message: str) -> None:
        """Write a line at level INFO into the driver's log."""
        self._call("info", message)

    def report_standing(self, standing: Standing, said_at: float) -> bool:
        """Report what is known of the election at `said_at` (seconds since 1970); False when this driver has lost."""
        return bool(self._call("reportStanding", json.dumps(standing.as_json(said_at))))

    def keep_for_next_agent(self, name: str, text: str) -> None:
        """Keep a text for the next agent of this driver, in place of an earlier text of this name."""
        self._call("keepForNextAgent", name, text)

    def from_earlier_agent(self, name: str) -> str:
        """The text of this name that an earlier agent has kept; empty where there is none."""
        return str(self._call("fromEarlierAgent", name))

    def metrics(self, values: Mapping[str, float]) -> None:
        """Set all gauges of the agent in Spark's metrics system; gauges that are not in `values` are removed."""
        self._call("metrics", json.dumps(values))

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self._bridge, method)(*arguments)
        except (Py4JError, OSError) as error:
            raise AgentError(f"the driver did not answer {method}: {error}") from error


def plan_as_json(plan: PublishPlan) -> str:
    """The JSON of a plan, as the JVM reads it and keeps it for the next agent."""
    form: dict[str, Any] = {"version": plan.version, "queries": _by_partition(plan.rows)}
    if plan.copies:
        form["standbys"] = _by_partition(plan.copies)
    return json.dumps(form)


def _by_partition(executors: Mapping[str, Mapping[int, tuple[str, ...]]]) -> dict[str, dict[str, list[str]]]:
    return {query: {str(partition): list(row) for partition, row in by.items()} for query, by in executors.items()}


def _events(text: str) -> list[Event]:
    return [event for form in json.loads(text) if (event := read_event(form)) is not None]
