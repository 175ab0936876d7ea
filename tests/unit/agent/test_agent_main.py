"""The agent's process at the end of its driver."""

from __future__ import annotations

import io
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from mooring.agent import __main__ as agent
from mooring.errors import AgentError


@pytest.fixture(autouse=True)
def signals_of_the_tests() -> Iterator[None]:
    """The agent ignores signals, and so would all processes that later tests start."""
    before = {number: signal.getsignal(number) for number in agent._SIGNALS_FOR_THE_DRIVER}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Closed(io.StringIO):
    """Standard error whose reader has died."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def test_an_agent_whose_driver_was_killed_still_writes_what_is_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    written, may_write = threading.Event(), threading.Event()

    def end_with_the_driver(opened: object) -> None:
        assert may_write.wait(10)
        written.set()

    class Ends:
        def __init__(self, *parts: object) -> None: ...

        def run(self) -> None:
            may_write.set()
            raise AgentError("the driver did not answer pollEvents")

    monkeypatch.setattr(agent, "_end_with_the_driver", end_with_the_driver)
    monkeypatch.setattr(agent, "JvmBridge", lambda: None)
    monkeypatch.setattr(
        agent,
        "AgentResources",
        lambda bridge: type("Out", (), dict.fromkeys(("open_records", "join_election", "handle"))),
    )
    monkeypatch.setattr(agent, "Agent", Ends)
    monkeypatch.setattr(sys, "stderr", Closed())
    assert agent.main() == 1 and written.is_set()
