"""A seeded run of 300 fleet changes through the agent's core: what it publishes keeps the rules, whatever happens.

Another seed: `MOORING_SEED=7 pytest tests/property/test_standby_agent.py`.
"""

import random
from collections import Counter
from collections.abc import Collection, Mapping
from uuid import UUID

import pytest

from mooring.agent.planning.copies import tasks_of_standbys
from mooring.agent.requests.inbox import RequestsRead
from mooring.agent.requests.orders import Answer
from mooring.agent.requests.phase import REQUEST_TIMEOUTS
from mooring.agent.requests.restart import RESTART_MARGIN_MS
from mooring.agent.state.fleet import Fleet
from mooring.grouping import check_job_model, check_standbys
from mooring.model import JobModel, events
from mooring.model.orders import LogLine, RestartExecutor
from mooring.placement import (
    ANY_HOST,
    ANY_PROCESSOR,
    LAST_SEEN,
    STANDBY,
    ContainerPlacementRequestMessage,
    HostAction,
    StandbyAction,
    StatusCode,
    StoredMessages,
)
from mooring.placement.lifecycle import Phase
from tests.seeds import seeds
from tests.unit.agent.builders import TIMING, Story, running

CHANGES = 300
HOSTS = "abcdef"
ZONE = {"a": "x", "b": "x", "c": "y", "d": "y", "e": "z", "f": ""}


WAYS = {
    ("BAD_REQUEST",),
    ("ACCEPTED",),
    ("ACCEPTED", "FAILED"),
    ("ACCEPTED", "IN_PROGRESS"),
    ("ACCEPTED", "IN_PROGRESS", "SUCCEEDED"),
    ("ACCEPTED", "IN_PROGRESS", "FAILED"),
}


class Run:
    """An application whose executors, queries and zones change; batches run where the rows say."""

    def __init__(self, seed: int, factor: int) -> None:
        self.rng = random.Random(f"{seed} {factor}")
        self.story: Story = running("q", 11, ("1@a", "2@b", "3@c"), factor)
        self.queries = ["q"]
        self.made = 100
        self.stopped: set[str] = set()
        self.ways: dict[UUID, list[str]] = {}
        self.heard = 0

    def change(self) -> str:
        kinds = [self.join, self.join, self.lose, self.lose, self.come_back, self.learn_zones, self.wait, self.see]
        kinds += [self.wait, self.see, self.start_query, self.end_query, self.run_batch, self.control, self.control]
        kinds += [self.place, self.place, self.run_batch, self.see, self.host, self.host]
        return self.rng.choice(kinds)()

    def owners(self) -> set[tuple[str, str]]:
        """Tasks with their processors, as far as these are there: others get a place with any plan."""
        fleet = self.story.state.fleet
        return {(task, id) for task, id in fleet.processor_of_task().items() if id in fleet.processors}

    def ask(self, id: str, destination: str, **more: object) -> None:
        """Somebody writes a request; no task leaves its processor for that."""
        uuid, now_ms = UUID(int=self.rng.getrandbits(128)), self.story.now_ms
        asked = ContainerPlacementRequestMessage(uuid, "", id, destination, now_ms, **more)
        before = self.owners()
        self.story.take(RequestsRead(now_ms, StoredMessages({uuid: asked}, {}, {}), now_ms))
        assert before <= self.owners(), "no task leaves its processor for that"

    def control(self) -> str:
        """Somebody asks to stop or start standbys, now and then of a processor that is not there; no active moves."""
        self.story.after(0)
        id = self.rng.choice([*sorted(self.story.state.fleet.processors), "no such"])
        action = self.rng.choice(list(StandbyAction))
        self.ask(id, STANDBY, standby=action)
        return f"{action.value} the standbys of {id}"

    def place(self) -> str:
        """Somebody asks to move or to restart a processor, or a standby of one; the JVM does what it is told."""
        self.story.after(0)
        fleet = self.story.state.fleet
        id = self.rng.choice([*sorted(fleet.processors), *sorted(fleet.standby_ids()), "no such"])
        destination = self.rng.choice([*HOSTS, "nowhere", ANY_HOST, STANDBY, LAST_SEEN])
        begin, what = len(self.story.orders), f"processor {id} to {destination}"
        self.ask(id, destination, request_expiry_ms=self.rng.choice([None, 5_000]))
        for order in self.story.orders[begin:]:
            if isinstance(order, RestartExecutor) and self.rng.random() < 0.8:
                what = f"{what}, and {order.executor} is restarted"
                location = self.story.state.fleet.executors[order.executor].location
                self.story.dies(order.executor)
                self.join(location)
        return what

    def host(self) -> str:
        """Somebody drains or opens a host, also one that is not there, or the last one; no task moves at once."""
        self.story.after(0)
        host = self.rng.choice([*HOSTS, *sorted(self.story.state.fleet.overrides.drained), "nowhere"])
        action = self.rng.choice(list(HostAction))
        self.ask(ANY_PROCESSOR, host, host_action=action)
        return f"{action.value} {host}"

    def settle(self) -> None:
        """Nobody comes or goes; copies catch up, batches run, and time goes by: then drained hosts are empty.

        Restarts, for each of which others are waited for up to two minutes, are over by then.
        """
        for executor in sorted(self.story.silent):
            self.story.silent.discard(executor)
        left = 30
        while left > 0:
            self.story.after(TIMING.debounce_ms)
            self.story.sees_copies(*self.story.state.fleet.executors)
            self.run_batch()
            actions = self.story.state.queue.actions
            restarts = [one for one in actions if one.is_restart_under_way]
            longest_ms = REQUEST_TIMEOUTS.restart_ms + RESTART_MARGIN_MS
            assert all(self.story.now_ms - one.since_ms <= longest_ms for one in restarts)
            left = 30 if restarts and self.story.state.fleet.is_incomplete else left - 1
        fleet = self.story.state.fleet
        assert not fleet.ongoing.closed_standbys, "copies that were closed are made again"
        at = {id: executor.location for id, executor in fleet.executors.items()}
        if set(at.values()) - fleet.overrides.drained:
            held = {id for id, held in fleet.model.containers.items() if held.tasks}
            assert not {fleet.locations[id] for id in held} & fleet.overrides.drained, "an open host lives"
            firsts = {row[0] for rows in self.story.rows.values() for row in rows.values()}
            assert not {at[id] for id in firsts} & fleet.overrides.drained
            assert not [one for one in self.story.state.queue.actions if one.phase is Phase.EMPTYING]

    def check_locations(self) -> None:
        """Every task of a query that runs has an executor that lives; but when all were gone, when a plan is made."""
        fleet = self.story.state.fleet
        for query in fleet.queries.values():
            if query.is_released and fleet.executors and fleet.timers.regroup_at_ms is None:
                rows = self.story.rows.get(query.id, {})
                assert len(rows) == query.task_count
                assert all(any(id in fleet.executors for id in row) for row in rows.values())

    def hear(self) -> bool:
        """What was answered meanwhile: who is stopped now, and whether a request of standbys was begun, none of hosts.

        A host may be drained and opened again in one event, with a plan in between.
        """
        news = self.story.orders[self.heard :]
        self.heard = len(self.story.orders)
        answers = [order.response for order in news if isinstance(order, Answer)]
        gone = {answer.request.uuid for answer in answers if "is gone" in answer.response_message}
        begun = [
            answer.request
            for answer in answers
            if answer.status_code is StatusCode.IN_PROGRESS and answer.request.standby
        ]
        begun = [request for request in begun if request.uuid not in gone]
        for request in begun:
            change = self.stopped.add if request.standby is StandbyAction.STOP else self.stopped.discard
            change(request.processor_id)
        for answer in answers:
            self.ways.setdefault(answer.request.uuid, []).append(answer.status_code.value)
        self.stopped &= self.story.state.fleet.processors.keys()
        fleet = self.story.state.fleet
        self.stopped -= {
            id for id in self.stopped - fleet.overrides.stopped_standbys if fleet.processors[id].is_spare
        }  # a new one
        assert fleet.overrides.stopped_standbys == self.stopped
        hosts = [answer for answer in answers if answer.request.host_action is not None]
        return bool(begun) and not any(answer.status_code is StatusCode.IN_PROGRESS for answer in hosts)

    def join(self, host: str | None = None) -> str:
        self.made += 1
        host = host or self.rng.choice(HOSTS)
        if len(self.story.state.fleet.executors) < 9:
            self.story.joins(f"{self.made}@{host}")
        return f"{self.made} joins at {host}"

    def lose(self) -> str:
        """One or two, one after the other; each time the tasks go where the JVM has sent them already."""
        living = sorted(self.story.state.fleet.executors)
        lost = self.rng.sample(living, min(self.rng.choice([1, 1, 1, 2]), len(living)))
        for executor in lost:
            rows, fleet = self.story.rows, self.story.state.fleet
            owner = fleet.processor_of_task()
            self.story.dies(executor)
            self.check_that_others_moved_to_warm_copies_only(fleet, executor)
            moving = {at for task, at in fleet.partition_of_task().items() if owner.get(task) in fleet.ongoing.moves}
            self.check_that_lost_tasks_are_where_the_jvm_has_them(rows, moving)
        return f"{lost} are lost"

    def come_back(self) -> str:
        gone = [p.location for p in self.story.state.fleet.processors.values() if p.executor is None]
        return self.join(self.rng.choice(sorted(gone))) if gone else self.wait()

    def learn_zones(self) -> str:
        for id, executor in sorted(self.story.state.fleet.executors.items()):
            self.story.take(
                events.ExecutorRegistered(self.story.now_ms, id, executor.location, 1, ZONE[executor.location])
            )
        return "zones are learned"

    def wait(self) -> str:
        milliseconds = self.rng.choice([100, 1_000, TIMING.debounce_ms, 20_000, TIMING.rebind_timeout_ms])
        self.story.after(milliseconds)
        return f"{milliseconds} ms pass"

    def see(self) -> str:
        behind = self.rng.choice([0, 0, 2])
        self.story.sees_copies(*self.story.state.fleet.executors, behind=behind)
        return f"copies are {behind} behind"

    def start_query(self) -> str:
        query = f"q{self.made}"
        self.made += 1
        if len(self.queries) < 4:
            self.story.plans(query, self.rng.randint(1, 9))
            self.queries.append(query)
        return f"{query} starts"

    def end_query(self) -> str:
        if len(self.queries) > 1:
            self.story.ends(self.queries.pop(self.rng.randrange(len(self.queries))))
        return "a query ends"

    def run_batch(self) -> str:
        living = self.story.state.fleet.executors
        for query, rows in self.story.rows.items():
            ran = {p: first for p, row in rows.items() if (first := next((id for id in row if id in living), None))}
            self.story.take(events.BatchEnded(self.story.now_ms, query, 1, 500, ran, 0, 0, 0))
        return "a batch ends"

    def check(self, was_regrouped: bool, was_begun: bool) -> None:
        """Where copies may be always holds; how many there are, and evenness, as of the last plan."""
        fleet = self.story.state.fleet
        planned = {name for held in fleet.model.containers.values() for name in held.actives}
        queries = {q.label: q.tasks for q in fleet.queries.values() if {t.task_name for t in q.tasks} <= planned}
        tasks = [task for held in queries.values() for task in held]
        self.check_each_task_once(Counter(name for held in fleet.model.containers.values() for name in held.actives))
        check_standbys(fleet.model, tasks)
        if (was_regrouped or was_begun) and fleet.processors:
            zones = {e.location: e.zone for e in fleet.executors.values() if e.zone} or None
            factor, may_hold = fleet.settings.replication_factor, fleet.may_hold_copies
            pinned = {}
            for standby, name, replica in tasks_of_standbys(fleet, fleet.model, fleet.overrides.pinned_standbys):
                pinned.setdefault(name, {})[replica] = fleet.overrides.pinned_standbys[standby]
            check_standbys(fleet.model, tasks, zones, factor, None, may_hold, self.stopped, pinned)
            if was_regrouped and not fleet.is_incomplete and fleet.timers.even_out_by_ms is None:
                locations = fleet.open_locations
                open = [held for id, held in fleet.model.without_standbys().containers.items() if id in locations]
                if not fleet.tasks_to_warm_up:
                    check_job_model(JobModel.of(open), queries, locations)
        self.check_orders()
        self.check_locations()

    def check_each_task_once(self, found: Counter) -> None:
        queries = self.story.state.fleet.queries.values()
        there = {task.task_name for query in queries for task in query.tasks}
        wanted = {task.task_name for query in queries if query.is_released for task in query.tasks}
        assert set(found.values()) <= {1} and wanted <= set(found) <= there

    def check_orders(self) -> None:
        """No copy is asked for where the task runs, nor two at one location, nor of anybody who is gone."""
        at = {id: executor.location for id, executor in self.story.state.fleet.executors.items()}
        for query, by in self.story.copies.items():
            if query not in self.story.state.fleet.queries:
                continue
            for partition, held in by.items():
                runs_at = next((at[id] for id in self.story.rows[query][partition] if id in at), None)
                locations = [at[id] for id in held if id in at]
                assert runs_at not in locations and len(set(locations)) == len(locations)

    def check_that_lost_tasks_are_where_the_jvm_has_them(
        self, rows: Mapping[str, Mapping[int, tuple[str, ...]]], moving: Collection[tuple[str, int]]
    ) -> None:
        """A task whose executor was lost is at the next living one of the row that the JVM had, unless it moved."""
        living = self.story.state.fleet.executors
        for query, by in rows.items():
            for partition, row in by.items():
                fell_to = next((id for id in row if id in living), None)
                if row[0] not in living and fell_to is not None and (query, partition) not in moving:
                    assert self.story.rows[query][partition][0] == fell_to

    def check_that_others_moved_to_warm_copies_only(self, before: Fleet, lost: str) -> None:
        """No task of an executor that lives moved but to a copy that was seen there, at most one version behind."""
        was_on, now = before.executor_of, self.story.state.fleet
        for task, id in now.processor_of_task().items():
            owner = before.processor_of_task().get(task)
            if id != owner and was_on.get(owner, lost) != lost:
                copy = before.copies[(*before.partition_of_task()[task], now.executor_of[id])]
                assert copy.lag_versions <= 1


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("seed", seeds(1, 2, 3))
def test_what_is_published_keeps_the_rules_at_every_version(seed, factor):
    print(f"seed {seed}, factor {factor}")
    run = Run(seed, factor)
    start = run.story.state.fleet.model.version
    for number in range(CHANGES):
        was_due = run.story.state.fleet.timers.regroup_at_ms
        what = run.change()
        print(f"{number}: {what}")
        is_due = run.story.state.fleet.timers.regroup_at_ms
        is_one_event = not any(word in what for word in ("are lost", "zones", "is restarted"))
        was_begun = run.hear() and is_one_event  # between two changes, else
        run.check(was_regrouped=was_due is not None and is_due is None, was_begun=was_begun)
        if number % 100 == 99:
            run.settle()
            run.hear()
    versions = run.story.state.fleet.model.version - start
    assert versions > 20
    assert {tuple(way) for way in run.ways.values()} <= WAYS
    assert len(run.ways) > 10 and ("ACCEPTED", "IN_PROGRESS", "SUCCEEDED") in map(tuple, run.ways.values())
    assert not [order for order in run.story.orders if isinstance(order, LogLine) and "refused" in order.message]
