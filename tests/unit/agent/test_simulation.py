"""Upgrades and scaling, played on the pure core. The order is random; MOORING_SEED repeats one that was printed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from mooring.agent.counters import Counters
from mooring.agent.status import status_of
from mooring.grouping import plan_moves
from mooring.model import events
from tests.seeds import seeded
from tests.unit.agent.builders import TIMING, running

pytestmark = pytest.mark.slow

ONE_EACH = ("1@a", "2@b", "3@c", "4@d", "5@e")
TWO_ON_A_HOST = ("1@a", "2@a", "3@b", "4@b", "5@c")


class Simulation:
    """A story in which batches run where the rows say, and every move is counted."""

    def __init__(self, executors: tuple[str, ...], partitions: int, salt: str) -> None:
        self.chance = seeded(salt)
        self.story = running(partitions=partitions, executors=executors)
        self.batch = -1
        self.next_executor = 100
        self.start = self.story.saved[-1].model

    @property
    def hosts(self) -> dict[str, str]:
        return {id: executor.location for id, executor in self.story.state.fleet.executors.items()}

    def run_batch(self) -> None:
        """Each task on the first executor of its row that lives, as the JVM places it."""
        living = self.hosts
        placements = {p: next(id for id in row if id in living) for p, row in self.story.rows["q"].items()}
        self.batch += 1
        self.story.take(events.BatchEnded(self.story.now_ms, "q", self.batch, 500, placements, 0, 0, 0))

    def wait(self, milliseconds: int) -> None:
        """Time passes, with a batch each second."""
        for _ in range(milliseconds // 1_000):
            self.story.after(1_000)
            self.run_batch()
            self.story.sees_copies(*self.hosts)

    def join(self, host: str) -> None:
        self.next_executor += 1
        self.story.joins(f"{self.next_executor}@{host}")

    def processors(self) -> dict[int, str]:
        """Partition to processor, as the job model in force has it."""
        owner = self.story.state.fleet.processor_of_task()
        return {p: owner[f"q/Partition {p}"] for p in self.story.rows["q"]}

    def places(self) -> dict[int, str]:
        """Partition to the host where it runs."""
        return {p: self.hosts[executor] for p, executor in self.story.first_choice("q").items()}

    def moves(self) -> int:
        """Tasks that changed their processor between any two job models since the start."""
        models = [self.start, *(saved.model for saved in self.story.saved if saved.model.version > self.start.version)]
        pairs = pairwise(models)
        return sum(sum(m.changes_processor for m in plan_moves(one, other).moves) for one, other in pairs)


@pytest.mark.parametrize("executors", [ONE_EACH, TWO_ON_A_HOST], ids=["one each", "two on a host"])
@pytest.mark.parametrize("partitions", [10, 13, 3])
def test_a_rolling_upgrade_brings_every_task_back_three_times(executors: tuple[str, ...], partitions: int) -> None:
    sim = Simulation(executors, partitions, f"upgrade of {len(executors)}, {partitions} tasks")
    processors, places = sim.processors(), sim.places()
    for round in range(3):
        order = sim.chance.sample(sorted(sim.hosts), len(sim.hosts))
        for executor in order:
            host = sim.hosts[executor]
            sim.story.dies(executor)
            assert set(sim.story.first_choice("q").values()) <= set(sim.hosts), "every task runs somewhere meanwhile"
            sim.wait(sim.chance.randrange(0, TIMING.rebind_timeout_ms - 1_000))
            sim.join(host)
            sim.wait(sim.chance.randrange(0, 5_000))
        print(f"round {round}: order {order}, {sim.moves()} moves")
        assert sim.processors() == processors
        assert sim.places() == places
    assert sim.moves() == 0


@pytest.mark.parametrize("partitions", [10, 11, 23])
def test_an_upgrade_that_outlasts_the_rebind_timeout_moves_only_the_tasks_of_who_is_away(partitions: int) -> None:
    sim = Simulation(ONE_EACH, partitions, f"slow upgrade, {partitions} tasks")
    for executor in sim.chance.sample(sorted(sim.hosts), len(sim.hosts)):
        host, before, moves = sim.hosts[executor], sim.processors(), sim.moves()
        lost = Counter(before.values())[_processor_on(sim, executor)]
        sim.story.dies(executor)
        sim.wait(TIMING.rebind_timeout_ms)
        assert sim.moves() - moves == lost
        sim.join(host)
        sim.wait(TIMING.debounce_ms)
        assert sim.moves() - moves == lost + partitions // 5, "the newcomer takes its share and no more"
        sizes = Counter(sim.processors().values())
        assert set(sizes.values()) <= {partitions // 5, -(-partitions // 5)} and len(sizes) == 5


def test_scaling_from_two_to_five_to_three_moves_what_evenness_demands() -> None:
    sim = Simulation(("1@a", "2@b"), 15, "2 to 5 to 3")
    for host in sim.chance.sample(["c", "d", "e"], 3):
        sim.join(host)
        sim.wait(1_000)
    sim.wait(TIMING.debounce_ms)
    five = sim.processors()
    assert sorted(Counter(five.values()).values()) == [3, 3, 3, 3, 3]
    assert sim.moves() == 9, "two of five keep three each"
    leaving = sim.chance.sample(sorted(sim.hosts), 2)
    gone = {_processor_on(sim, executor) for executor in leaving}
    sim.story.dies(*leaving)
    sim.wait(TIMING.rebind_timeout_ms)
    three = sim.processors()
    print(f"left: {leaving}, {sim.moves()} moves in all")
    assert sorted(Counter(three.values()).values()) == [5, 5, 5]
    assert all(three[p] == five[p] for p in five if five[p] not in gone), "survivors swap nothing"
    assert sim.moves() == 9 + 6


def test_with_more_processors_than_tasks_the_idle_ones_stay_up_and_listed() -> None:
    sim = Simulation(ONE_EACH, 3, "more processors than tasks")
    rows = status_of(sim.story.state.fleet, Counters(), 0)["processors"]
    assert [len(row["tasks"]) for row in rows] == [1, 1, 1, 0, 0]
    assert {row["state"] for row in rows} == {"bound"} and len(sim.start.containers) == 5
    holder = sim.chance.choice(sorted(set(sim.story.first_choice("q").values())))
    before, gone = sim.processors(), _processor_on(sim, holder)
    sim.story.dies(holder)
    sim.wait(TIMING.rebind_timeout_ms)
    after = sim.processors()
    assert {p: id for p, id in after.items() if before[p] != gone} == {p: i for p, i in before.items() if i != gone}
    assert len(set(after.values())) == 3, "an idle processor takes the task, none holds two"
    assert len(status_of(sim.story.state.fleet, Counters(), 0)["processors"]) == 4


def _processor_on(sim: Simulation, executor: str) -> str:
    return next(p.id for p in sim.story.state.fleet.processors.values() if p.executor == executor)
