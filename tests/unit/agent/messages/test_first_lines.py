"""What the log says when all is well, and when what the driver runs on is not."""

from __future__ import annotations

import pytest

from mooring.agent.messages.first_lines import plan_is_in_force, records_are_in, records_of_another_are_in
from mooring.agent.messages.start_check import problems
from mooring.metadata.owners import UNKNOWN_OWNER, Owner
from mooring.model import events
from tests.unit.agent.test_loop import Bridge, executors, planned, planned_other, run, started


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("/shared/_mooring/clicks", "mooring status --metadata /shared/_mooring/clicks"),
        ("/shared/my clicks", "mooring status --metadata '/shared/my clicks'"),
        ("zk://a:2181,b:2181/clicks", "mooring status --metadata zk://a:2181,b:2181/clicks"),
        ("kafka://a:9092/clicks", "mooring status --metadata kafka://a:9092/clicks"),
    ],
)
def test_the_records_are_named_with_the_command_that_shows_them(place: str, command: str) -> None:
    assert records_are_in(place) == f"this application's records are in {place}; to see them: {command}"


def test_where_no_command_reaches_the_line_says_what_to_do() -> None:
    line = records_are_in("s3a://key:secret@bucket/ck/_mooring/clicks")
    assert "s3a://bucket/ck/_mooring/clicks" in line and "no command reaches s3a: storage" in line
    assert "spark.mooring.metadata" in line and "secret" not in line


def test_the_second_of_a_name_hears_who_the_first_is() -> None:
    line = records_of_another_are_in("/r/clicks", Owner("app-1", "10.0.0.7", ("a",)), "/r/clicks/application-2")
    assert "application app-1 on 10.0.0.7, which runs" in line
    assert line.endswith("mooring status --metadata /r/clicks/application-2")


def test_of_a_damaged_note_the_line_names_no_owner() -> None:
    line = records_of_another_are_in("/r/clicks", UNKNOWN_OWNER, "/r/clicks/application-2")
    assert line.startswith("the note of who keeps the records in /r/clicks is damaged")
    assert "/r/clicks/application-2" in line and "unknown" not in line


def test_a_placed_query_is_told_with_its_tasks_and_executors() -> None:
    rows = {"q-1": {0: ("1", "2"), 1: ("2",), 2: ("1",)}}
    assert plan_is_in_force("clicks", 4, rows, "q-1") == "query clicks is placed: 3 tasks on 2 executors, version 4"


def test_each_query_is_told_once_when_it_is_placed() -> None:
    bridge = Bridge([started(), *executors("a", "b")], [planned(6)], [], [planned_other(1)], *[[] for _ in range(9)])
    run(bridge)
    assert [line.partition(", version")[0] for line in bridge.told] == [
        "query q is placed: 6 tasks on 2 executors",
        "query r is placed: 1 task on 1 executor",
    ]


def test_an_agent_that_comes_later_does_not_tell_it_again() -> None:
    name = run(Bridge([started(), *executors("a", "b")], [planned(6)], [], []))
    in_force = events.PlanInForce(0, 50, {"q": {partition: ("0",) for partition in range(6)}})
    bridge = Bridge([in_force, started(), *executors("a", "b"), planned(6)], [], [], [])
    run(bridge, name)
    assert bridge.plans and bridge.told == []


def driver(spark: str = "", built_for: str = "", java: int = 0) -> events.ApplicationStarted:
    return events.ApplicationStarted(0, "app-1", "clicks", {}, "", spark=spark, built_for=built_for, java=java)


@pytest.mark.parametrize("fine", [driver(), driver("4.2.1", "4.2.0", 17), driver("4.2.0-amzn-1", "4.2.0", 21)])
def test_of_a_driver_that_is_as_it_should_be_nothing_is_said(fine: events.ApplicationStarted) -> None:
    assert problems(fine) == ()


def test_what_will_not_go_well_is_said_with_what_to_do() -> None:
    spark, java = problems(driver("4.3.0", "4.2.0", 11))
    assert "built for Spark 4.2, and this is Spark 4.3.0" in spark and "a jar that was built for Spark 4.3" in spark
    assert "this is Java 11" in java and "Java 17 or later" in java


def test_the_agent_says_it_in_the_drivers_log() -> None:
    bridge = Bridge([driver("4.3.0", "4.2.0", 17)], [])
    run(bridge)
    assert len(bridge.said) == 1 and "this is Spark 4.3.0" in bridge.said[0]
