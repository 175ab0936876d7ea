"""The events of the JVM, from their JSON.

An event is read by the fields of its dataclass. Three events have another shape in JSON, and are brought into the shape
of their fields first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from mooring.model import events
from mooring.model.dataclass_codec import Form, from_form
from mooring.model.events import ClockTicked, Event


def read_event(form: Form) -> Event | None:
    """The event of one JSON object; None for a kind that this version does not know.

    KeyError for a missing field.
    """
    name = form["event"]
    kind = _KINDS.get(name)
    shape = _SHAPES.get(name)
    return None if kind is None else from_form(kind, shape(form) if shape else form)


def _kinds() -> dict[str, type[Event]]:
    """The events that come from the JVM, by name: all of `mooring.model.events` but the agent's own."""
    classes = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    return {kind.__name__: kind for kind in classes if kind not in (Event, ClockTicked)}


def _shape_of_plan_in_force(form: Form) -> Form:
    """The plan is a text of JSON, empty where there is none. Its copies are not read."""
    plan: Form = json.loads(form["plan"]) if form["plan"] else {"version": 0, "queries": {}}
    rows = {
        query: {int(partition): executors for partition, executors in by_partition.items()}
        for query, by_partition in plan["queries"].items()
    }
    return {**form, "version": plan["version"], "rows": rows}


def _shape_of_query_planned(form: Form) -> Form:
    """Operators are a list of id and number of partitions."""
    return {**form, "partitions": {operator["id"]: operator["partitions"] for operator in form["operators"]}}


def _shape_of_batch_ended(form: Form) -> Form:
    """Placements are a list; those of tasks that were measured have the task's run as well."""
    placements = form["placements"]
    return {
        **form,
        "placements": {placement["partition"]: placement["executor"] for placement in placements},
        "runs": {placement["partition"]: placement for placement in placements if "milliseconds" in placement},
    }


_KINDS: Final = _kinds()
_SHAPES: Final[Mapping[str, Callable[[Form], Form]]] = {
    "PlanInForce": _shape_of_plan_in_force,
    "QueryPlanned": _shape_of_query_planned,
    "BatchEnded": _shape_of_batch_ended,
}
