"""What the JVM hears of an election, and when records may be written."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mooring.agent.election.leadership import LeadershipReporter
from mooring.errors import AgentError
from mooring.model.standing import LEADING, UNKNOWN, WAITING, Standing
from mooring.testing.probes import wait_until

I_LEAD = Standing(LEADING, "me", 60, epoch="mine")
ANOTHER_LEADS = Standing(WAITING, "another")


class Polls:
    """An election whose course the test decides."""

    silence_seconds = 0.1

    def __init__(self) -> None:
        self.now = Standing(UNKNOWN)
        self.left = "token"
        self.is_closed = False
        self.failure: Exception | None = None

    def standing(self) -> Standing:
        if self.failure:
            raise self.failure
        return self.now

    def legacy(self) -> str:
        return self.left

    def close(self) -> None:
        self.is_closed = True


class Jvm:
    """Remembers what it was told; has lost once it is told so."""

    def __init__(self) -> None:
        self.heard: list[Standing] = []
        self.kept: list[str] = []
        self.log: list[str] = []
        self.is_gone = False
        self.has_lost = False
        self.hangs = threading.Event()
        self.goes_on = threading.Event()

    def report_standing(self, standing: Standing, said_at: float) -> bool:
        if self.is_gone:
            raise AgentError("gone")
        if self.hangs.is_set():
            self.goes_on.wait(10)
            self.hangs.clear()
        self.heard.append(standing)
        self.has_lost |= standing.state == WAITING and I_LEAD in self.heard
        return not self.has_lost

    def keep_for_next_agent(self, name: str, text: str) -> None:
        self.kept.append(text)

    def warn(self, message: str) -> None:
        self.log.append(message)


@pytest.fixture
def polls() -> Polls:
    return Polls()


@pytest.fixture
def jvm() -> Jvm:
    return Jvm()


@pytest.fixture
def reporter(polls: Polls, jvm: Jvm) -> Iterator[LeadershipReporter]:
    reporter = LeadershipReporter(polls, jvm, every_seconds=0.01)
    yield reporter
    reporter.close()


def hears(jvm: Jvm, standing: Standing, times: int = 1) -> None:
    wait_until(lambda: jvm.heard.count(standing) >= times, f"the JVM to hear {standing}", 5, interval=0.005)


def hangs_as_the_leader(polls: Polls, jvm: Jvm) -> None:
    """The driver hears that it leads, and then hangs."""
    polls.now = I_LEAD
    hears(jvm, I_LEAD)
    jvm.hangs.set()


def test_the_standing_is_told_again_and_again(reporter: LeadershipReporter, polls: Polls, jvm: Jvm) -> None:
    polls.now = ANOTHER_LEADS
    hears(jvm, ANOTHER_LEADS, times=3)
    assert not reporter.may_write()
    polls.now = I_LEAD
    hears(jvm, I_LEAD)
    assert reporter.may_write()


def test_who_has_waited_for_another_driver_knows_it(reporter: LeadershipReporter, polls: Polls, jvm: Jvm) -> None:
    hears(jvm, Standing(UNKNOWN))
    assert not reporter.has_waited
    polls.now = ANOTHER_LEADS
    hears(jvm, ANOTHER_LEADS)
    polls.now = I_LEAD
    hears(jvm, I_LEAD)
    assert reporter.has_waited


def test_without_a_connection_nothing_is_written_and_nothing_is_lost(
    reporter: LeadershipReporter, polls: Polls, jvm: Jvm
) -> None:
    for standing in (I_LEAD, Standing(UNKNOWN), I_LEAD):
        polls.now = standing
        jvm.heard.clear()
        hears(jvm, standing)
        assert reporter.may_write() == (standing.state == LEADING)


def test_who_has_lost_stands_down_for_good(reporter: LeadershipReporter, polls: Polls, jvm: Jvm) -> None:
    polls.now = I_LEAD
    hears(jvm, I_LEAD)
    polls.now = ANOTHER_LEADS
    wait_until(lambda: polls.is_closed, "the candidate to stand down", 5, interval=0.005)
    polls.now = I_LEAD
    assert not reporter.may_write() and jvm.heard[-1] == ANOTHER_LEADS


def test_a_driver_that_hangs_makes_room_for_one_that_waits(
    reporter: LeadershipReporter, polls: Polls, jvm: Jvm
) -> None:
    polls.now = Standing(LEADING, "me", 60, contested=True, epoch="mine")
    hears(jvm, polls.now)
    jvm.hangs.set()
    wait_until(lambda: polls.is_closed, "the candidate to stand down", 5, interval=0.005)
    assert not reporter.may_write()
    jvm.goes_on.set()
    wait_until(lambda: jvm.heard[-1].state == WAITING, "the driver to hear that it has lost", 5, interval=0.005)


def test_a_driver_that_hangs_makes_room_for_one_that_comes_later(
    reporter: LeadershipReporter, polls: Polls, jvm: Jvm
) -> None:
    hangs_as_the_leader(polls, jvm)
    wait_until(lambda: jvm.hangs.is_set(), "the driver to hang", 5)
    polls.now = Standing(LEADING, "me", 60, contested=True, epoch="mine")
    wait_until(lambda: polls.is_closed, "the candidate to stand down", 5, interval=0.005)
    jvm.goes_on.set()


def test_a_driver_that_hangs_keeps_the_lead_while_nobody_waits(
    reporter: LeadershipReporter, polls: Polls, jvm: Jvm
) -> None:
    hangs_as_the_leader(polls, jvm)
    assert not jvm.goes_on.wait(3 * polls.silence_seconds)
    assert not polls.is_closed
    jvm.goes_on.set()


def test_an_election_that_fails_is_told_and_said_once(reporter: LeadershipReporter, polls: Polls, jvm: Jvm) -> None:
    polls.failure = RuntimeError("can't start new thread")
    hears(jvm, Standing(UNKNOWN), times=5)
    polls.now, polls.failure = I_LEAD, None
    hears(jvm, I_LEAD)
    assert len(jvm.log) == 1 and "can't start new thread" in jvm.log[0]


def test_the_legacy_is_left_once_for_each_change(reporter: LeadershipReporter, polls: Polls, jvm: Jvm) -> None:
    hears(jvm, Standing(UNKNOWN), times=3)
    polls.left = "another token"
    wait_until(lambda: jvm.kept == ["token", "another token"], "the JVM to hear of it", 5, interval=0.005)


def test_it_ends_with_the_driver_and_stands_down_when_closed(polls: Polls, jvm: Jvm) -> None:
    jvm.is_gone = True
    reporter = LeadershipReporter(polls, jvm, every_seconds=0.01)
    reporter.close()
    assert polls.is_closed and not jvm.heard
