"""Batches of a query for tests of lending, whose tasks run well or badly as a test says."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mooring.model import events
from mooring.model.orders import LogLine
from tests.unit.agent.builders import Story, running

USUAL_MS, ROWS = 1_000, 100


class Batches:
    """Batches of a query, whose tasks run where their rows say; a test says which of them go otherwise."""

    def __init__(self, story: Story) -> None:
        self.story, self.batch = story, -1

    @property
    def plan(self) -> dict[int, str]:
        return self.story.first_choice("q")

    def run(
        self,
        times: int = 1,
        slow_on: Collection[str] = (),
        factor: float = 5.0,
        refuse: Collection[str] = (),
        outrun: Collection[str] = (),
        fail: Collection[str] = (),
        rows: int = ROWS,
        milliseconds: Callable[[int, str], int] | None = None,
        outvoted: Collection[int] = (),
    ) -> None:
        for _ in range(times):
            self.batch += 1
            self.story.now_ms += 5_000
            wanted = self.plan
            leave = {*refuse, *outrun, *fail}
            other = next(id for id in self.story.state.fleet.executors if id not in leave)
            placements = {
                p: other if executor in leave or p in outvoted else executor for p, executor in wanted.items()
            }
            runs = {
                p: events.TaskRun(
                    # Where it was sent after it had failed; what a coalesce puts with tasks of others has no place.
                    "" if p in outvoted else other if wanted[p] in fail else wanted[p],
                    milliseconds(p, at) if milliseconds else int(USUAL_MS * (factor if at in slow_on else 1)),
                    rows,
                    wanted[p] in outrun,
                    frozenset({wanted[p]} & set(fail)),
                )
                for p, at in placements.items()
            }
            as_planned = sum(placements[p] == wanted[p] for p in wanted)
            self.story.take(events.BatchBegan(self.story.now_ms, "q", self.batch))
            self.story.take(
                events.BatchEnded(
                    self.story.now_ms,
                    "q",
                    self.batch,
                    4_000,
                    placements,
                    len(wanted),
                    as_planned,
                    runs=runs,
                    not_placed=frozenset(outvoted),
                )
            )

    def loans(self) -> dict[str, str]:
        return {executor: loan.reason for (_, executor), loan in self.story.state.fleet.lending.loans.items()}

    def said(self) -> list[str]:
        return [order.message for order in self.story.orders if isinstance(order, LogLine)]


def after_six_usual_batches() -> Batches:
    """Twelve tasks on three executors, after six usual batches."""
    batches = Batches(running(partitions=12))
    batches.run(6)
    assert not batches.loans()
    return batches
