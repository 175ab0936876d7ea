"""What the JVM hears of an election, and when records may be written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mooring.agent.leadership import Helm
from mooring.errors import AgentError
from mooring.testing.probes import wait_until


class Polls:
    """An election whose course the test decides."""

    now = ("unknown", "")
    left = "token"
    is_closed = False

    def standing(self) -> tuple[str, str]:
        return self.now

    def legacy(self) -> str:
        return self.left

    def close(self) -> None:
        self.is_closed = True


class Jvm:
    """Remembers what it was told."""

    is_gone = False

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.kept: list[str] = []

    def lead(self, state: str, leader: str) -> None:
        if self.is_gone:
            raise AgentError("gone")
        self.heard.append((state, leader))

    def leave(self, text: str) -> None:
        self.kept.append(text)


@pytest.fixture
def polls() -> Polls:
    return Polls()


@pytest.fixture
def jvm() -> Jvm:
    return Jvm()


@pytest.fixture
def helm(polls: Polls, jvm: Jvm) -> Iterator[Helm]:
    helm = Helm(polls, jvm, every_seconds=0.01)
    yield helm
    helm.close()


def test_the_standing_is_told_again_and_again(helm: Helm, polls: Polls, jvm: Jvm) -> None:
    polls.now = ("waiting", "another")
    wait_until(lambda: jvm.heard.count(("waiting", "another")) > 3, "the JVM to hear of it", 5, interval=0.005)
    assert not helm.may_write()
    polls.now = ("leading", "me")
    wait_until(lambda: ("leading", "me") in jvm.heard, "the JVM to hear of it", 5, interval=0.005)
    assert helm.may_write()


def test_without_a_connection_nothing_is_written_and_nothing_is_lost(helm: Helm, polls: Polls, jvm: Jvm) -> None:
    for standing in (("leading", "me"), ("unknown", ""), ("leading", "me")):
        polls.now = standing
        jvm.heard.clear()
        wait_until(lambda heard=standing: heard in jvm.heard, "the JVM to hear of it", 5, interval=0.005)
        assert helm.may_write() == (standing[0] == "leading")


def test_who_has_lost_never_writes_again(helm: Helm, polls: Polls, jvm: Jvm) -> None:
    for standing in (("leading", "me"), ("waiting", "another"), ("leading", "me")):
        polls.now = standing
        jvm.heard.clear()
        wait_until(lambda: len(jvm.heard) > 2, "the JVM to hear of it", 5, interval=0.005)
    assert jvm.heard[-1][0] == "waiting" and not helm.may_write()


def test_the_legacy_is_left_once_for_each_change(helm: Helm, polls: Polls, jvm: Jvm) -> None:
    wait_until(lambda: len(jvm.heard) > 3, "the JVM to hear of it", 5, interval=0.005)
    polls.left = "another token"
    wait_until(lambda: jvm.kept == ["token", "another token"], "the JVM to hear of it", 5, interval=0.005)


def test_it_ends_with_the_driver_and_stands_down_when_closed(polls: Polls, jvm: Jvm) -> None:
    jvm.is_gone = True
    helm = Helm(polls, jvm, every_seconds=0.01)
    helm.close()
    assert polls.is_closed and not jvm.heard
