"""Whether an application runs, by statuses that are read one after the other."""

from __future__ import annotations

import pytest

from mooring.client.liveness import Life, LivenessWatch


class Machine:
    """A machine that reads statuses; its clock is ahead of the agent's."""

    def __init__(self, ahead_ms: int) -> None:
        self.agents_clock_ms, self._ahead_ms = 1_700_000_000_000, ahead_ms
        self.watch = LivenessWatch(lambda: self.agents_clock_ms + self._ahead_ms)

    def reads(self, written_ms: int) -> tuple[Life, bool]:
        found = self.watch.liveness_of({"at": written_ms})
        return found.life, found.is_given_up

    def after(self, ms: int) -> int:
        self.agents_clock_ms += ms
        return self.agents_clock_ms


@pytest.mark.parametrize("ahead_ms", [0, 45_000, 3_600_000])
def test_an_application_whose_status_is_replaced_is_alive_whatever_the_clock_says(ahead_ms: int) -> None:
    machine = Machine(ahead_ms)
    machine.reads(machine.agents_clock_ms)
    assert machine.reads(machine.after(10_000)) == (Life.ALIVE, False)


@pytest.mark.parametrize("ahead_ms", [0, 45_000, 3_600_000])
def test_an_application_that_falls_silent_meanwhile_is_noticed_as_soon_as_on_its_own_machine(ahead_ms: int) -> None:
    machine = Machine(ahead_ms)
    machine.reads(machine.agents_clock_ms)
    last = machine.after(1_000)
    machine.reads(last)
    machine.after(29_000)
    assert machine.reads(last) == (Life.ALIVE, False)
    machine.after(1_000)
    assert machine.reads(last) == (Life.SILENT, False)
    machine.after(90_000)
    assert machine.reads(last) == (Life.SILENT, True)


def test_the_first_status_is_judged_by_the_clock() -> None:
    assert Machine(0).reads(1_700_000_000_000) == (Life.ALIVE, False)
    assert Machine(120_000).reads(1_700_000_000_000) == (Life.SILENT, True)


def test_a_status_that_can_not_be_read_is_no_sign() -> None:
    machine = Machine(200_000)
    machine.reads(machine.agents_clock_ms)
    machine.watch.liveness_of({})
    assert machine.reads(machine.agents_clock_ms) == (Life.SILENT, True)
