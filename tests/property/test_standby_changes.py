"""A seeded run of 200 fleet changes, the placement rules checked at every version.

Another seed: `MOORING_SEED=7 pytest tests/property/test_standby_changes.py`.
"""

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from mooring.grouping import StandbyTaskNameGrouper, check_job_model
from mooring.model import JobModel, TaskModel, TaskName
from mooring.standby import JobModelWithStandbys, choose_new_owners, failover_order
from tests.property.standby_fleets import actives, holders
from tests.seeds import seeds

CHANGES = 200


@dataclass
class Fleet:
    """Hosts with their zones and processors, tasks, the factor, and the plan in force."""

    rng: random.Random
    zones_known: bool = True
    factor: int = 2
    zone_of: dict[str, str] = field(default_factory=dict)
    host_of: dict[str, str] = field(default_factory=dict)
    tasks: set[str] = field(default_factory=set)
    model: JobModel | None = None
    hosts_made: int = 0

    def change(self) -> str:
        """Make one change and say which."""
        kinds = [self.add_host, self.add_host, self.lose_host, self.lose_host, self.lose_processor, self.add_tasks]
        return self.rng.choice([*kinds, self.end_tasks, self.turn_zones, self.change_factor])()

    def add_host(self) -> str:
        self.hosts_made += 1
        host = f"host-{self.hosts_made}"
        self.zone_of[host] = self.rng.choice("abc")
        for number in range(self.rng.randint(1, 2)):
            self.host_of[f"{self.hosts_made}-{number}"] = host
        return f"{host} comes"

    def lose_host(self) -> str:
        host = self.rng.choice(sorted(self.zone_of))
        if len(self.zone_of) > 2 or self.rng.random() < 0.2 < len(self.zone_of) - 1:
            del self.zone_of[host]
            self.host_of = {id: at for id, at in self.host_of.items() if at != host}
        return f"{host} goes"

    def lose_processor(self) -> str:
        id = self.rng.choice(sorted(self.host_of))
        if Counter(self.host_of.values())[self.host_of[id]] > 1:
            del self.host_of[id]
        return f"processor {id} goes"

    def add_tasks(self) -> str:
        query = f"q-{self.rng.randrange(10**6)}"
        self.tasks |= {f"{query}/Partition {n}" for n in range(self.rng.randint(1, 12))}
        return f"{query} starts"

    def end_tasks(self) -> str:
        self.tasks -= set(self.rng.sample(sorted(self.tasks), len(self.tasks) // 3))
        return "a third of the tasks ends"

    def turn_zones(self) -> str:
        self.zones_known = not self.zones_known
        return f"zones known: {self.zones_known}"

    def change_factor(self) -> str:
        self.factor = self.rng.randint(1, 4)
        return f"factor {self.factor}"

    def zones(self) -> dict[str, str] | None:
        return self.zone_of if self.zones_known else None

    def task_models(self) -> set[TaskModel]:
        return {TaskModel(TaskName(name)) for name in self.tasks}

    def plan(self) -> JobModelWithStandbys:
        grouper = StandbyTaskNameGrouper(factor=self.factor, zones=self.zones())
        return grouper.group_with_report(self.task_models(), {}, self.host_of, self.model)


def check_rules(fleet: Fleet, found: JobModelWithStandbys) -> None:
    """The placement rules once more, as one reads them: nothing of the checker or of the planner is used."""
    zones, missing = fleet.zones(), Counter(unplaced.task_name for unplaced in found.unplaced)
    owner, hosts = actives(found.model), set(fleet.zone_of)
    for task, held in holders(found.model).items():
        locations = [fleet.host_of[p] for p in (owner[task], *held)]
        assert len(set(locations)) == len(locations)
        assert len(held) == min(fleet.factor - 1, len(hosts) - 1)
        assert len(held) + missing[task] == fleet.factor - 1
        if zones:
            assert len({zones[place] for place in locations}) == min(len(locations), len(set(zones.values())))


def check_failover(before: JobModel, fleet: Fleet) -> None:
    """What is lost starts where a copy is, if one is left; and the orders of preference say the same."""
    lost = before.containers.keys() - fleet.host_of.keys()
    found, copies, owner = choose_new_owners(before, lost), holders(before), actives(before)
    for task, taker in found.items():
        assert taker in set(copies[task]) - lost
    for task in {task for task, processor in owner.items() if processor in lost} - found.keys():
        assert set(copies[task]) <= lost
    assert all(set(row) == set(copies[task]) for task, row in failover_order(before).items())


@pytest.mark.parametrize("seed", seeds(1, 2, 3))
def test_the_rules_hold_at_every_version_of_a_changing_fleet(seed):
    print(f"seed {seed}")
    fleet = Fleet(random.Random(seed))
    for _ in range(6):
        fleet.add_host()
    for version in range(CHANGES):
        before, what = fleet.model, fleet.change()
        print(f"{version}: {what}")
        while len(fleet.tasks) < 10:
            fleet.add_tasks()
        if before is not None:
            check_failover(before, fleet)
        found = fleet.plan()
        check_rules(fleet, found)
        queries = {"q": fleet.task_models()}
        check_job_model(found.model, queries, fleet.host_of, zones=fleet.zones(), factor=fleet.factor)
        fleet.model = found.model
        assert fleet.plan() == found
