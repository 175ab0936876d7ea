"""Events from the JSON of the JVM, and the codec that reads dataclasses by their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.model import events
from mooring.model.dataclass_codec import from_form, key
from mooring.model.event_json import read_event

FORMS: dict[str, tuple[dict[str, Any], events.Event]] = {
    "a field of each key": (
        {"event": "StateMeasured", "at": 1, "executor": "2", "store": "file:/ck/state/0/3", "bytes": 7},
        events.StateMeasured(1, "2", "file:/ck/state/0/3", 7),
    ),
    "defaults": (
        {
            "event": "ApplicationStarted",
            "at": 1,
            "application": "app-1",
            "name": "clicks",
            "settings": {"a": "b"},
            "checkpoint-location": "",
            "catalogued": True,
            "locality-wait": 0,
        },
        events.ApplicationStarted(1, "app-1", "clicks", {"a": "b"}, "", is_catalogued=True, locality_wait_ms=0),
    ),
    "a set": (
        {"event": "DrainOwed", "at": 1, "query": "q", "after": ["a", "b"]},
        events.DrainOwed(1, "q", frozenset({"a", "b"})),
    ),
    "a tuple of dataclasses": (
        {
            "event": "CopiesSeen",
            "at": 1,
            "query": "q",
            "version": 9,
            "copies": [{"partition": 0, "executor": "2", "version": 8, "lag-ms": 5, "bytes": 6, "fetched-bytes": 7}],
        },
        events.CopiesSeen(1, "q", 9, (events.CopyOfState(0, "2", 8, 5, 6, 7),)),
    ),
    "operators": (
        {
            "event": "QueryPlanned",
            "at": 1,
            "query": "q",
            "run": "r",
            "name": "",
            "checkpoint": "file:/ck",
            "batch": 4,
            "operators": [{"id": 0, "partitions": 5}, {"id": 1, "partitions": 6}],
        },
        events.QueryPlanned(1, "q", "r", "", "file:/ck", 4, {0: 5, 1: 6}),
    ),
    "placements": (
        {
            "event": "BatchEnded",
            "at": 1,
            "query": "q",
            "batch": 2,
            "milliseconds": 3,
            "planned": 2,
            "as-planned": 1,
            "state-bytes": 4,
            "placements": [
                {"partition": 0, "executor": "1"},
                {
                    "partition": 1,
                    "executor": "2",
                    "wanted": "1",
                    "milliseconds": 9,
                    "rows": 8,
                    "speculative": True,
                    "failed-on": ["1"],
                },
            ],
        },
        events.BatchEnded(
            1, "q", 2, 3, {0: "1", 1: "2"}, 2, 1, 4, {1: events.TaskRun("1", 9, 8, True, frozenset({"1"}))}
        ),
    ),
    "an executor that is lost at the end of the application": (
        {"event": "ExecutorLost", "at": 1, "executor": "2", "reason": "gone", "ordinary-end": True},
        events.ExecutorLost(1, "2", "gone", is_ordinary=True),
    ),
    "an executor that is lost": (
        {"event": "ExecutorLost", "at": 1, "executor": "2", "reason": "gone"},
        events.ExecutorLost(1, "2", "gone"),
    ),
    "no plan": ({"event": "PlanInForce", "at": 1, "plan": ""}, events.PlanInForce(1, 0, {})),
}


@pytest.mark.parametrize("name", FORMS)
def test_an_event_is_read_by_the_fields_of_its_dataclass(name: str) -> None:
    form, event = FORMS[name]
    assert read_event({**form, "a key of a later version": 1}) == event


@pytest.mark.parametrize("name", ["a kind of a later version", "ClockTicked", "Event"])
def test_a_kind_that_does_not_come_from_the_jvm_is_no_event(name: str) -> None:
    assert read_event({"event": name, "at": 1}) is None


def test_a_missing_field_is_named() -> None:
    with pytest.raises(KeyError, match="executor"):
        read_event({"event": "PlanPickedUp", "at": 1, "version": 2})


@dataclass(frozen=True)
class Sized:
    state_bytes: int
    renamed: str = field(metadata=key("other-name"))
    parts: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


def test_the_key_of_a_field_is_its_name_with_hyphens_or_the_one_of_its_metadata() -> None:
    form = {"state-bytes": 3, "other-name": "a", "parts": {4: ["b", "c"]}}
    assert from_form(Sized, form) == Sized(3, "a", {4: ("b", "c")})
    assert from_form(Sized, {"state-bytes": 3, "other-name": "a"}) == Sized(3, "a")
