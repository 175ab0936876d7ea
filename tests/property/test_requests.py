"""A seeded run of what operators ask, through agents that crash, beside a store and a JVM that outlive them.

Another seed: `MOORING_SEED=7 pytest tests/property/test_requests.py`.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from mooring.agent.agent_state import AgentState
from mooring.agent.core import absorb
from mooring.agent.planning.copies import tasks_of_standbys
from mooring.agent.requests import run
from mooring.agent.requests.action import Action
from mooring.agent.requests.inbox import RESPONSES_KEPT_MS, RequestsRead
from mooring.agent.requests.orders import Answer
from mooring.agent.requests.queue import REMEMBERED_REQUESTS, RequestQueue
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.grouping import check_standbys
from mooring.model import events
from mooring.model.orders import Order, SaveJobModel
from mooring.placement import (
    ANY_HOST,
    ANY_PROCESSOR,
    LAST_SEEN,
    STANDBY,
    HostAction,
    MalformedRequest,
    StandbyAction,
    StatusCode,
    StoredMessages,
)
from mooring.placement.lifecycle import Phase
from tests.property.request_store import (
    APP,
    HOSTS,
    Request,
    RequestStore,
    World,
    a_next_agent,
    about,
    as_carried_out,
    meet,
    shared,
    turn,
)
from tests.seeds import seeds
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.queues import Queues

CHANGES = 500
CRASHES = 0.03


class Run(World):
    """Clients, executors that come and go, and one agent after the other."""

    def __init__(self, seed: int, factor: int) -> None:
        story = Story(
            state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(replication_factor=factor)))
        )
        super().__init__(random.Random(f"requests {seed} {factor}"), story)
        self.factor, self.crashes = factor, 0.0
        self.store, self.agent = RequestStore(), 0
        self.ours: dict[UUID, Request] = {}
        self.foreign: set[UUID] = set()
        self.begun: set[UUID] = set()
        self.known_to_agent: set[UUID] = set()
        self.found: tuple[StoredMessages, int] | None = None
        self.is_down = False
        for host in "abcd":
            self.join(host)
        self.wait(TIMING.debounce_ms)
        self.jvm.queries["q"] = events.QueryPlanned(0, "q", "run of q", "q", "file:/ck/q", 0, {0: 7})
        self.tell(events.ApplicationStarted(0, APP, "clicks", {}, ""))
        self.tell(self.jvm.queries["q"])
        self.crashes = CRASHES

    @property
    def fleet(self) -> Fleet:
        return self.story.state.fleet

    def change(self) -> str:
        kinds: list[Callable[[], str]] = [self.place, self.place, self.place, self.control, self.host]
        kinds += [self.malformed, self.of_others, self.write_again, self.look, self.look, self.read, self.read]
        kinds += [self.read, self.run_batch, self.run_batch, self.run_batch, self.see, self.see, self.see, self.wait]
        kinds += [self.wait, self.join, self.lose, self.obey, self.obey, self.crash, self.other_query, self.be_silent]
        return self.rng.choice(kinds)()

    # Clients

    def asks(self, id: str, destination: str, **more: object) -> str:
        """At a time by the client's clock, which is not that of others."""
        uuid = UUID(int=self.rng.getrandbits(128))
        asked = Request(uuid, APP, id, destination, self.rng.randrange(1000), **more)  # type: ignore[arg-type]
        self.store.requests[uuid] = self.ours[uuid] = asked
        return f"{asked.timestamp}: {uuid} asks {id} to {destination} {more}"

    def place(self) -> str:
        ids = [*sorted(self.fleet.processors), *sorted(self.fleet.standby_ids()), "no such"]
        somewhere = [*HOSTS, *sorted(self.fleet.overrides.drained), ANY_HOST, ANY_HOST, LAST_SEEN, STANDBY, "no host"]
        expiry_ms = self.rng.choice([None, None, 0, 5_000])
        return self.asks(self.rng.choice(ids), self.rng.choice(somewhere), request_expiry_ms=expiry_ms)

    def control(self) -> str:
        id = self.rng.choice([*sorted(self.fleet.processors), "no such"])
        return self.asks(id, STANDBY, standby=self.rng.choice(list(StandbyAction)))

    def host(self) -> str:
        host = self.rng.choice([*HOSTS, *sorted(self.fleet.overrides.drained), "no host"])
        action = HostAction.OPEN if host in self.fleet.overrides.drained else self.rng.choice(list(HostAction))
        return self.asks(ANY_PROCESSOR, host, host_action=action)

    def malformed(self) -> str:
        bad = Request(UUID(int=self.rng.getrandbits(128)), self.rng.choice(["", APP, "app-0"]), "", "", 0)
        self.store.malformed[bad.uuid] = MalformedRequest(bad, "timestamp is missing")
        if bad.deployment_id == "app-0":
            self.foreign.add(bad.uuid)
        else:
            self.ours[bad.uuid] = bad
        return f"{bad.uuid} is malformed"

    def of_others(self) -> str:
        id = self.rng.choice([*sorted(self.fleet.processors), "no such"])
        asked = Request(UUID(int=self.rng.getrandbits(128)), "app-0", id, self.rng.choice([*HOSTS, LAST_SEEN]), 1)
        self.store.requests[asked.uuid] = asked
        self.foreign.add(asked.uuid)
        if self.rng.random() < 0.5:
            self.store.responses[asked.uuid] = asked.answered(StatusCode.ACCEPTED, "", self.story.now_ms)
        return f"{asked.uuid} is for another deployment"

    def write_again(self) -> str:
        """What is remembered: by the agent, or by the response that is there."""
        again = [uuid for uuid in self.ours if uuid in self.known_to_agent | self.store.responses.keys()]
        uuid = self.rng.choice(again) if again else None
        if uuid is not None and self.ours[uuid].destination_host:
            self.store.requests[uuid] = self.ours[uuid]
        return f"{uuid} is written again"

    # The agent reads, and dies

    def look(self) -> str:
        """The messages as they are now, which the agent may hear of a little later."""
        self.found = self.store.messages(), self.story.now_ms
        return "the store is looked at"

    def read(self) -> str:
        (found, as_of_ms), self.found = self.found or (self.store.messages(), self.story.now_ms), None
        self.known_to_agent |= found.requests.keys() | found.malformed.keys()
        if self.tell(RequestsRead(self.story.now_ms, found, as_of_ms)):
            asked = found.requests.keys() | found.malformed.keys()
            assert not [uuid for uuid in asked - self.foreign if self.store.status(uuid) is StatusCode.CREATED]
            assert not self.foreign & asked & (self.store.messages().requests.keys() | self.store.responses.keys())
        return "the agent reads"

    def crash(self) -> str:
        """Or another one leads: what the old one would decide from now on is not done."""
        self.agent += 1
        self.found, self.known_to_agent, self.is_down = None, set(), True
        changes = [self.lose, self.join, self.wait, self.obey]
        meanwhile = [change() for change in self.rng.sample(changes, self.rng.choice([0, 0, 1, 2]))]
        self.is_down = False
        self.story = a_next_agent(self.store, self.jvm, self.story.now_ms, self.factor)
        print(f"  {meanwhile}; then agent {self.agent} begins")
        self.wait(0)
        return "there is a new agent"

    def act(self, what: Callable[[], object]) -> bool:
        """Whether all was done that the agent has decided."""
        if self.is_down:
            return False
        before, self.story.orders = self.story.state, [self.jvm.plan]
        what()
        news = self.story.orders[1:]
        answers = [order.response for order in news if isinstance(order, Answer)]
        begun = [one.request for one in answers if one.status_code is StatusCode.IN_PROGRESS]
        failed = {one.request.uuid for one in answers if one.status_code is StatusCode.FAILED}
        self.begun |= {
            UUID(uuid) for uuid in before.queue.saved_progress.keys() | before.queue.answered_requests.keys()
        }
        self.check_turns(before, begun, failed)
        self.check_one_at_a_time(before, news, failed)
        self.check_plan()
        is_cut = self.rng.random() < self.crashes
        orders = as_carried_out(news, is_store_slow=self.rng.random() < 0.5)
        done = orders[: self.rng.randint(0, len(orders))] if is_cut else orders
        told = [self.jvm.carry_out(order, self.story.now_ms) for order in done]
        for order in done:
            self.store.carry_out(order, self.agent)
        self.begun |= {one.uuid for one in begun if StatusCode.IN_PROGRESS in self.store.statuses.get(one.uuid, ())}
        assert not self.foreign & self.store.statuses.keys(), "what is for others is not answered"
        if is_cut:
            print(f"  the agent dies after {len(done)} of {len(orders)} orders")
            self.crash()
            return False
        return all([self.tell(event) for event in told if event is not None])

    def settle(self) -> None:
        """Nobody comes or goes any more, hosts are there; all is read, copies catch up, batches run, time passes."""
        self.crashes, self.story.silent = 0.0, set()
        for host in "uvw":
            self.join(host)
        for _ in range(400):
            self.read()
            self.act(lambda: self.story.sees_copies(*self.jvm.executors))
            self.run_batch()
            self.wait(TIMING.debounce_ms)
            if not self.store.requests and not self.story.state.queue.actions:
                break
        for _ in range(25):
            self.act(lambda: self.story.sees_copies(*self.jvm.executors))
            self.run_batch()
            self.wait(TIMING.debounce_ms)
        self.read()
        self.read()  # then nothing is left that has an answer

    # What is promised

    def check_turns(self, before: AgentState, begun: list[Request], failed: set[UUID]) -> None:
        """For one processor, and for one host, requests begin in the order of their clients' timestamps."""
        waiting = {
            action.request.uuid: action.request
            for state in (before, self.story.state)
            for action in state.queue.actions
            if action.phase is Phase.WAITING
        }
        waiting |= {request.uuid: request for request in begun}
        for request in begun:
            del waiting[request.uuid]
            if request.uuid not in self.begun | failed:  # what failed at once has done nothing
                for other in waiting.values():
                    is_same = all(
                        about(state.fleet, request) == about(state.fleet, other) for state in (before, self.story.state)
                    )
                    assert not is_same or turn(request) < turn(other), f"{request} was begun before {other}"

    def check_one_at_a_time(self, before: AgentState, news: list[Order], failed: set[UUID]) -> None:
        """While one is under way, none begins for the same processor, nor for one with copies of its tasks."""
        minds = (before, self.story.state)
        going = {
            action.request.uuid: action.request
            for state in minds
            for action in state.queue.actions
            if action.request.uuid in self.begun or (action.is_under_way and state is before)
        }
        models = [before.fleet.model, self.fleet.model, *(o.model for o in news if isinstance(o, SaveJobModel))]
        living = before.fleet.executor_of
        sharing = {copy for copy in set.intersection(*(shared(model) for model in models)) if copy[2] in living}
        for request, status in [(o.response.request, o.response.status_code) for o in news if isinstance(o, Answer)]:
            if status is StatusCode.IN_PROGRESS and request.uuid not in self.begun | failed:
                for other in going.values():
                    is_beside = all(meet(state, sharing, request, other) for state in minds)
                    assert not is_beside, f"{request} was begun while {other} was under way"
                going[request.uuid] = request
            elif status.is_final:
                going.pop(request.uuid, None)

    def check_plan(self, is_settled: bool = False) -> None:
        fleet = self.fleet
        found = Counter(name for held in fleet.model.containers.values() for name in held.actives)
        assert set(found.values()) <= {1}, "each task is there once"
        tasks = [task for query in fleet.queries.values() for task in query.tasks if task.task_name in found]
        check_standbys(fleet.model, tasks)
        if is_settled:
            assert len(tasks) == sum(query.task_count for query in fleet.queries.values()) == len(found)
            factor, may_hold, stopped = (
                fleet.settings.replication_factor,
                fleet.may_hold_copies,
                fleet.overrides.stopped_standbys,
            )
            pinned: dict[str, dict[int, str]] = {}
            for standby, name, replica in tasks_of_standbys(fleet, fleet.model, fleet.overrides.pinned_standbys):
                pinned.setdefault(name, {})[replica] = fleet.overrides.pinned_standbys[standby]
            check_standbys(fleet.model, tasks, None, factor, None, may_hold, stopped, pinned)

    def check_end(self) -> None:
        statuses = {uuid: self.store.status(uuid) for uuid in self.ours}
        assert all(status.is_final for status in statuses.values()), [u for u, s in statuses.items() if not s.is_final]
        assert not self.store.requests and not self.store.malformed
        assert not self.foreign & self.store.responses.keys()
        queue, fleet = self.story.state.queue, self.fleet
        assert not queue.actions and not queue.saved_progress and not queue.answered_requests
        assert (
            not fleet.ongoing.moves
            and not fleet.ongoing.closed_standbys
            and not set(fleet.ongoing.restarts.values()) & fleet.executors.keys()
        )
        assert not self.store.overrides.saved_progress and not self.store.overrides.done
        assert fleet.executors.keys() == set(fleet.executor_of.values()), "each executor has a processor"


@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("seed", seeds(1, 2, 3))
def test_every_request_comes_to_one_end_in_its_turn_whatever_dies_meanwhile(seed: int, factor: int) -> None:
    print(f"seed {seed}, factor {factor}")
    run = Run(seed, factor)
    for number in range(CHANGES):
        print(f"{number}: at {run.story.now_ms}")
        print(f"{number}: {run.change()}")
    run.settle()
    run.check_plan(is_settled=True)
    run.check_end()
    ends = Counter(run.store.status(uuid) for uuid in run.ours)
    print(ends, run.agent)
    assert min(ends[status] for status in (StatusCode.BAD_REQUEST, StatusCode.FAILED, StatusCode.SUCCEEDED)) > 2
    assert run.agent > 5


def test_after_fifty_thousand_requests_the_next_one_works_and_what_is_remembered_is_bounded() -> None:
    """Some that can not be, some that are done at once, and of each fifty one that changes the plan."""
    queues = Queues(running(partitions=4, factor=2))
    story, most = queues.story, 0
    for number in range(50_000):
        uuid, at_ms = UUID(int=number), 50_000 - number
        if number % 50 == 0:
            action = StandbyAction.STOP if number % 100 == 0 else StandbyAction.START
            queues.requests[uuid] = Request(uuid, APP, "0", STANDBY, at_ms, standby=action)
        elif number % 2:
            queues.requests[uuid] = Request(uuid, APP, "no such", "b", at_ms)
        else:
            host = "abc"[number % 3]
            queues.requests[uuid] = Request(uuid, APP, ANY_PROCESSOR, host, at_ms, host_action=HostAction.OPEN)
        if number % 50 == 49:
            story.now_ms += 60_000
            queues.is_read()
            assert not queues.requests
            queue, most = story.state.queue, max(most, len(queues.responses))
            assert (
                len(queue.answered_requests) <= 50
                and not queue.saved_progress
                and not queue.actions
                and len(queue.history) <= 20
            )
            queues.carry_out(story.orders.clear)
    assert len(story.state.queue.seen) == REMEMBERED_REQUESTS and most <= 50 * (RESPONSES_KEPT_MS // 60_000 + 2)
    assert Counter(status for _, status in queues.said)["SUCCEEDED"] == 25_000
    last = queues.places("1", LAST_SEEN, at_ms=1)
    queues.is_read()
    story.dies("2")
    story.joins("9@b")
    queues.after()
    assert queues.changes(last) == ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]


@pytest.mark.parametrize("count", [100, 500])
def test_one_request_of_each_of_many_processors_is_begun_at_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is looked at a few times, however many there are."""
    story = Story(silent={str(number) for number in range(count)})
    for number in range(count):
        joined = events.ExecutorRegistered(0, str(number), f"h{number}", 1)
        story.state = absorb(story.state, joined)
    story.state = replace(story.state, fleet=replace(story.state.fleet, timing=TIMING))
    story.after(TIMING.debounce_ms)
    story.plans("q", count)
    story.after(TIMING.barrier_timeout_ms)
    looks, outcome = Counter[UUID](), run._outcome

    def counted(queue: RequestQueue, fleet: Fleet, action: Action, *others: Any) -> Any:
        looks[action.request.uuid] += 1
        return outcome(queue, fleet, action, *others)

    monkeypatch.setattr(run, "_outcome", counted)
    queues = Queues(story)
    asked = [queues.places(str(number), LAST_SEEN, at_ms=number) for number in range(count)]
    queues.is_read()
    assert Counter(status for _, status in queues.said) == {"ACCEPTED": count, "IN_PROGRESS": count}
    for number in range(count):
        story.state = absorb(story.state, events.ExecutorLost(story.now_ms, str(number), ""))
        joined = events.ExecutorRegistered(story.now_ms, str(count + number), f"h{number}", 1)
        story.state = absorb(story.state, joined)
    queues.after()
    assert all(queues.responses[request.uuid].status_code is StatusCode.SUCCEEDED for request in asked)
    assert max(looks.values()) <= 10
