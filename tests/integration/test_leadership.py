"""What a driver's JVM makes of the agent's words about the election: who waits, who goes on, who is refused."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from mooring.model.standing import LEADING, NONE, REFUSED, UNKNOWN, WAITING, Standing
from mooring.testing.probes import wait_until
from tests.integration.support.store_with_open_copy import scala_object

FIRST, RENEWED, CONTESTED = 0.6, 0.3, 1.2
"""Seconds: patience of a driver that starts, of one under way, and of one under way with a standby."""


class Truth:
    """A Scala function that answers with what the test says."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def apply(self) -> bool:
        return self.value

    class Java:
        """Read by Py4J."""

        implements = ("scala.Function0",)


setattr(Truth, "apply$mcZ$sp", Truth.apply)  # Scala's form of it for a Boolean


class Driver:
    """A driver, as far as its leadership goes; `agent` is whether one may still be heard."""

    def __init__(self, jvm: Any) -> None:
        self.agent = Truth(True)
        self._jvm = jvm
        self.leadership = jvm.io.mooring.election.Leadership(*(int(s * 1000) for s in (FIRST, RENEWED, CONTESTED)))
        self._start = threading.Thread(target=self._run, daemon=True)
        self.refusal: str | None = None

    def _run(self) -> None:
        self.refusal = self.leadership.awaitTurn(self.agent)

    def hears(self, *standings: Standing, ago: float = 0.0) -> bool:
        """Whether it still takes part after the last of them."""
        for standing in standings:
            form = json.dumps(standing.as_json(time.time() - ago))
            takes_part = self.leadership.update(self._jvm.io.mooring.election.Standing.parse(form))
        return bool(takes_part)

    def starts(self) -> None:
        self._start.start()

    @property
    def is_under_way(self) -> bool:
        return not self._start.is_alive()

    def waits_for(self, seconds: float) -> bool:
        """Whether it still waits for its turn after so long."""
        self._start.join(seconds)
        return not self.is_under_way

    def goes_on_within(self, seconds: float) -> None:
        wait_until(lambda: self.is_under_way, "the driver to go on", seconds)

    def writes(self) -> float:
        """How long an entry of a log had to wait, in seconds."""
        began = time.monotonic()
        self.leadership.check("commits/7", self.agent)
        return time.monotonic() - began

    def is_refused(self) -> bool:
        try:
            self.writes()
        except Py4JJavaError as error:
            assert "LeadershipLostException: commits/7 is not written" in str(error)
            return True
        return False


@pytest.fixture
def driver(gateway: JavaGateway) -> Driver:
    return Driver(gateway.jvm)


@pytest.fixture
def leader(driver: Driver) -> Driver:
    driver.hears(Standing(LEADING, "me", 60, epoch="mine"))
    driver.starts()
    driver.goes_on_within(5)
    return driver


def test_a_wrong_option_of_the_store_is_the_answer(driver: Driver) -> None:
    driver.starts()
    assert driver.waits_for(0.1)
    driver.hears(Standing(REFUSED, "spark.mooring.metadata.timout: no such option"))
    driver.goes_on_within(5)
    assert driver.refusal == "spark.mooring.metadata.timout: no such option"


def test_a_leader_writes_at_once_while_the_word_holds(leader: Driver) -> None:
    assert leader.writes() < RENEWED / 2


def test_a_word_that_holds_no_more_is_renewed(leader: Driver) -> None:
    leader.hears(Standing(LEADING, "me", 5, epoch="mine"), ago=6)
    began = time.monotonic()
    threading.Timer(RENEWED / 3, leader.hears, (Standing(LEADING, "me", 60, epoch="mine"),)).start()
    assert leader.writes() < RENEWED
    assert time.monotonic() - began >= RENEWED / 3, "it has waited for that"
    assert leader.writes() < RENEWED / 2


def test_who_hears_nothing_waits_once_and_goes_on(leader: Driver) -> None:
    leader.hears(Standing(LEADING, "me", 5, epoch="mine"), ago=6)
    assert leader.writes() >= RENEWED
    assert leader.writes() < RENEWED / 2
    leader.hears(Standing(LEADING, "me", 5, epoch="mine"), ago=6)
    assert leader.writes() >= RENEWED


def test_with_a_standby_it_waits_for_the_next_agent(leader: Driver) -> None:
    leader.hears(Standing(LEADING, "me", 5, contested=True, epoch="mine"), ago=6)
    threading.Timer(2 * RENEWED, leader.hears, (Standing(WAITING, "another"),)).start()
    assert leader.is_refused()


def test_a_new_agent_that_knows_nothing_yet_does_not_let_a_loser_write(leader: Driver) -> None:
    leader.hears(Standing(LEADING, "me", 5, contested=True, epoch="mine"), ago=6)
    for delay, standing in ((0.2, Standing(UNKNOWN)), (0.5, Standing(UNKNOWN)), (0.8, Standing(WAITING, "another"))):
        threading.Timer(delay, leader.hears, (standing,)).start()
    assert leader.is_refused()


def test_without_a_connection_a_lone_driver_goes_on_at_once(leader: Driver) -> None:
    leader.hears(Standing(UNKNOWN))
    assert leader.writes() < RENEWED / 2


def test_nobody_waits_for_an_agent_that_does_not_come(leader: Driver) -> None:
    leader.agent.value = False
    leader.hears(Standing(LEADING, "me", 5, contested=True, epoch="mine"), ago=6)
    assert leader.writes() < RENEWED / 2


def test_nobody_waits_where_there_is_no_election(driver: Driver) -> None:
    driver.hears(Standing(NONE, seconds=0))
    driver.starts()
    driver.goes_on_within(FIRST / 2)
    assert driver.writes() < RENEWED / 2


@pytest.mark.parametrize(
    ("words", "has_lost"),
    [
        ((Standing(WAITING, "another"), Standing(LEADING, "me", 60, epoch="mine")), True),
        ((Standing(UNKNOWN), Standing(LEADING, "me", 60, epoch="mine")), False),
        ((Standing(UNKNOWN), Standing(LEADING, "me", 60, epoch="a new one")), True),
    ],
    ids=["another leads", "nobody else has led", "another led between"],
)
def test_who_was_overtaken_has_lost_for_good(leader: Driver, words: tuple[Standing, ...], has_lost: bool) -> None:
    assert leader.hears(*words) is not has_lost
    assert leader.is_refused() is has_lost


def test_a_leader_whose_application_ends_writes_nothing_more_in_a_batch_under_way(
    gateway: JavaGateway, leader: Driver
) -> None:
    """Its agent stands down, so another driver may lead at once. The JVM's next application is in no election."""
    writes = scala_object(gateway.jvm, "io.mooring.election.LeaderOnlyWrites")
    option = gateway.jvm.scala.Option.apply
    writes.use(option(leader.leadership), leader.agent)
    writes.check("commits/7")
    leader.leadership.end()
    leader.agent.value = False
    writes.use(option(None), Truth(False))
    with pytest.raises(Py4JJavaError, match="commits/7 is not written: the application ends"):
        writes.check("commits/7")
    writes.use(option(None), Truth(False))
    writes.check("commits/7")


def test_the_end_of_a_driver_that_never_led_refuses_nothing(driver: Driver) -> None:
    driver.hears(Standing(NONE, seconds=0))
    driver.starts()
    driver.goes_on_within(5)
    driver.leadership.end()
    assert not driver.is_refused()


def test_a_driver_that_starts_waits_for_a_first_word_and_no_longer(driver: Driver) -> None:
    began = time.monotonic()
    driver.starts()
    driver.goes_on_within(10)
    assert time.monotonic() - began >= FIRST


def test_a_standby_does_not_begin_because_it_hears_less(driver: Driver) -> None:
    driver.hears(Standing(WAITING, "another"))
    driver.starts()
    assert driver.waits_for(1.5 * FIRST)
    driver.hears(Standing(UNKNOWN))
    assert driver.waits_for(1.5 * FIRST)
    driver.hears(Standing(LEADING, "me", 60, epoch="mine"))
    driver.goes_on_within(5)
    assert driver.writes() < RENEWED / 2


def test_a_standby_that_will_hear_nothing_any_more_goes_on(driver: Driver) -> None:
    driver.hears(Standing(WAITING, "another"))
    driver.starts()
    driver.agent.value = False
    driver.goes_on_within(10)
    assert not driver.is_refused()
