"""Reads of a map that Spark's scheduler may be changing."""

from __future__ import annotations

from py4j.java_gateway import JavaGateway

from tests.integration.support.scala_function import ScalaFunction
from tests.integration.support.store_with_open_copy import SCHEDULER_SHIMS, scala_object


def test_an_entry_that_a_read_has_missed_is_read_again(gateway: JavaGateway) -> None:
    option = gateway.jvm.scala.Option.apply
    answers = [option(None), option("a stage")]
    unlocked = scala_object(gateway.jvm, f"{SCHEDULER_SHIMS}.UnlockedMap")
    found = unlocked.entry(ScalaFunction(lambda: answers.pop(0)))
    assert found.get() == "a stage" and not answers


def test_an_entry_that_is_not_there_is_soon_given_up(gateway: JavaGateway) -> None:
    reads: list[None] = []
    none = gateway.jvm.scala.Option.apply(None)
    unlocked = scala_object(gateway.jvm, f"{SCHEDULER_SHIMS}.UnlockedMap")
    found = unlocked.entry(ScalaFunction(lambda: reads.append(None) or none))
    assert found.isEmpty() and len(reads) == 3
