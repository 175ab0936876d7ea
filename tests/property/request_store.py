"""What outlives agents: the store with requests and what agents keep, and the JVM; and agents that start on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from uuid import UUID

from mooring.agent.agent_state import AgentState
from mooring.agent.requests.orders import Answer, RemoveMessages
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.model import JobModel, events, job_model_from_json, job_model_to_json
from mooring.model.orders import (
    AnnounceVersion,
    ForgetRestart,
    Order,
    PublishPlan,
    RestartExecutor,
    SaveJobModel,
    SaveTaskLocality,
)
from mooring.placement import (
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    MalformedRequest,
    StatusCode,
    StoredMessages,
)
from mooring.records.operator_overrides import OperatorOverrides, SaveOverrides
from mooring.records.records import Remembered
from tests.unit.agent.builders import TIMING, Story
from tests.unit.agent.next_agent import next_agent

APP = "app-1"
HOSTS = "abcde"
Request = ContainerPlacementRequestMessage
Response = ContainerPlacementResponseMessage
AFTER = {
    StatusCode.CREATED: {StatusCode.ACCEPTED, StatusCode.BAD_REQUEST},
    StatusCode.ACCEPTED: {StatusCode.IN_PROGRESS},
    StatusCode.IN_PROGRESS: {StatusCode.SUCCEEDED, StatusCode.FAILED},
}


@dataclass
class RequestStore:
    """Requests, responses and the agent's records; `statuses` are all that clients could ever see of a request."""

    requests: dict[UUID, Request] = field(default_factory=dict)
    malformed: dict[UUID, MalformedRequest] = field(default_factory=dict)
    responses: dict[UUID, Response] = field(default_factory=dict)
    model: JobModel | None = None
    task_locality: dict[str, str] = field(default_factory=dict)
    overrides: OperatorOverrides = field(default_factory=OperatorOverrides)
    statuses: dict[UUID, list[StatusCode]] = field(default_factory=dict)
    written_by: dict[UUID, int] = field(default_factory=dict)

    def messages(self) -> StoredMessages:
        return StoredMessages(dict(self.requests), dict(self.malformed), dict(self.responses))

    def status(self, uuid: UUID) -> StatusCode:
        return self.statuses.get(uuid, [StatusCode.CREATED])[-1]

    def carry_out(self, order: Order, agent: int) -> None:
        match order:
            case Answer(response):
                self._answered(response, agent)
            case RemoveMessages(uuid, response_too):
                self.requests.pop(uuid, None)
                self.malformed.pop(uuid, None)
                if response_too:
                    self.responses.pop(uuid, None)
            case SaveOverrides(overrides):
                self.overrides = overrides
            case SaveJobModel(model):
                self.model = model
            case SaveTaskLocality(changed):
                self.task_locality |= changed

    def _answered(self, response: Response, agent: int) -> None:
        """One status after the other; an agent may repeat what one before it has said, and its own last word."""
        uuid, status = response.request.uuid, response.status_code
        before = self.status(uuid)
        is_again = status is before and (status.is_final or self.written_by[uuid] != agent)
        assert is_again or status in AFTER.get(before, ()), f"{uuid}: {status} after {before} ({response})"
        self.responses[uuid] = response
        self.written_by[uuid] = agent
        if not is_again:
            self.statuses.setdefault(uuid, []).append(status)


@dataclass
class Jvm:
    """The executors that live, by id with their host, the plan in force, and the executors that are to end."""

    executors: dict[str, str] = field(default_factory=dict)
    queries: dict[str, events.QueryPlanned] = field(default_factory=dict)
    plan: PublishPlan = field(default_factory=lambda: PublishPlan(0, {}))
    announced: int = -1
    ending: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Request to the executor that is to end, and when the JVM gives that up."""

    heeded: dict[str, str] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)

    def carry_out(self, order: Order, now_ms: int) -> events.Event | None:
        match order:
            case AnnounceVersion(version):
                self.announced = version
            case PublishPlan():
                self.plan = order
            case RestartExecutor(request, executor, wait_ms) if request not in self.heeded:
                self.heeded[request] = executor
                self.ending[request] = (executor, now_ms + wait_ms)
                return events.ExecutorRestarting(now_ms, request, executor)
            case RestartExecutor(request, executor) if request in self.given_up:
                return events.RestartGivenUp(now_ms, request, executor)
            case ForgetRestart(request):
                self.heeded.pop(request, None)
                self.given_up.discard(request)
                if self.ending.get(request, ("", 0))[0] not in self.executors:
                    self.ending.pop(request, None)
        return None

    def ran(self, query: str) -> dict[int, str]:
        """Where a batch runs: each task on the first executor of its row that lives."""
        rows = self.plan.rows.get(query, {})
        return {p: first for p, row in rows.items() if (first := next((id for id in row if id in self.executors), ""))}

    def hello(self, now_ms: int) -> list[events.Event]:
        """What a new agent is told, in the order in which it is told."""
        return [
            events.PlanInForce(now_ms, self.plan.version, self.plan.rows, self.announced),
            *(events.ExecutorRestarting(now_ms, request, executor) for request, (executor, _) in self.ending.items()),
            events.ApplicationStarted(0, APP, "clicks", {}, ""),
            *(events.ExecutorRegistered(now_ms, id, host, 1) for id, host in self.executors.items()),
            *self.queries.values(),
        ]


class World(ABC):
    """Executors that come and go, batches that run, copies that catch up or lag, and time that passes."""

    def __init__(self, rng: Random, story: Story) -> None:
        self.rng, self.story, self.jvm = rng, story, Jvm()
        self.made, self.batch = 100, 0

    @abstractmethod
    def act(self, what: Callable[[], object]) -> bool:
        """Have the agent that leads hear of something, and do what it decides; whether all of that was done."""

    def tell(self, event: events.Event) -> bool:
        return self.act(lambda: self.story.take(event))

    def join(self, host: str = "") -> str:
        self.made += 1
        id, host = str(self.made), host or self.rng.choice(HOSTS)
        if len(self.jvm.executors) < 8:
            self.jvm.executors[id] = host
            self.tell(events.ExecutorRegistered(self.story.now_ms, id, host, 1))
        return f"{id} joins at {host}"

    def lose(self, id: str = "") -> str:
        """One of all, or one that a request is about."""
        ends = {id for action in self.story.state.queue.actions for id in (action.source, action.destination)}
        choice = sorted(self.jvm.executors.keys() & ends) if self.rng.random() < 0.6 else []
        choice = choice or sorted(self.jvm.executors)
        id = id or (self.rng.choice(choice) if len(self.jvm.executors) > 1 else "")
        if id in self.jvm.executors:
            del self.jvm.executors[id]
            self.tell(events.ExecutorLost(self.story.now_ms, id, "killed"))
        return f"{id} is lost"

    def obey(self) -> str:
        """An executor that was to end does so, now and then after its successor has come; or without one."""
        ending = sorted({id for id, _ in self.jvm.ending.values()} & self.jvm.executors.keys())
        if not ending:
            return self.join() if len(self.jvm.executors) < 3 else "nobody is to end"
        id = self.rng.choice(ending)
        host, how = self.jvm.executors[id], self.rng.random()
        said = [self.join(host)] if how < 0.3 else []
        said.append(self.lose(id))
        return "; ".join([*said, self.join(host)] if 0.3 < how < 0.8 else said)

    def run_batch(self) -> str:
        self.batch += 1
        self.story.now_ms += 1
        for query in self.jvm.queries:
            ran = self.jvm.ran(query)
            self.tell(events.BatchEnded(self.story.now_ms, query, self.batch, 500, ran, 0, 0, 0))
            self.jvm.queries[query] = replace(self.jvm.queries[query], batch=self.batch + 1)
        return f"batch {self.batch} ends"

    def see(self) -> str:
        behind = self.rng.choice([0, 0, 1, 2])
        some = [id for id in self.jvm.executors if self.rng.random() < 0.9]
        self.act(lambda: self.story.sees_copies(*some, behind=behind))
        self.wait(100)
        return f"the copies of {some} are {behind} behind"

    def wait(self, milliseconds: int | None = None) -> str:
        if milliseconds is None:
            milliseconds = self.rng.choice([100, 1_000, TIMING.debounce_ms, 10_000, 10_000, 60_000])
        self.story.now_ms += milliseconds
        now_ms = self.story.now_ms
        late = {uuid: id for uuid, (id, until_ms) in self.jvm.ending.items() if until_ms <= now_ms}
        for uuid, id in late.items():
            if id in self.jvm.executors:
                del self.jvm.ending[uuid]
                self.jvm.given_up.add(uuid)
                self.tell(events.RestartGivenUp(now_ms, uuid, id))
        self.tell(events.ClockTicked(now_ms))
        return f"{milliseconds} ms pass"

    def be_silent(self) -> str:
        """Some executors do not take up new versions for a while."""
        some = [id for id in sorted(self.jvm.executors) if self.rng.random() < 0.15]
        self.story.silent = set(some)
        return f"{some} are silent"

    def other_query(self) -> str:
        """Another query starts, or ends."""
        now_ms = self.story.now_ms
        if "r" in self.jvm.queries:
            del self.jvm.queries["r"]
            self.tell(events.QueryEnded(now_ms, "r", "run of r", ""))
            return "query r ends"
        self.jvm.queries["r"] = events.QueryPlanned(now_ms, "r", "run of r", "r", "file:/ck/r", 0, {0: 3})
        self.tell(self.jvm.queries["r"])
        return "query r starts"


def as_carried_out(orders: Iterable[Order], is_store_slow: bool) -> list[Order]:
    """A slow store gets the newest notes first, then the answers, when the JVM has been told all."""
    if not is_store_slow:
        return list(orders)
    rank = {SaveOverrides: 1, SaveJobModel: 2, SaveTaskLocality: 3, Answer: 4, RemoveMessages: 4}
    return sorted(orders, key=lambda order: rank.get(type(order), 0))


def a_next_agent(store: RequestStore, jvm: Jvm, now_ms: int, factor: int) -> Story:
    """The agent that follows one that died: it gets what is true now, and reads what was kept."""
    assert store.model is not None
    remembered = Remembered(
        job_model_from_json(job_model_to_json(store.model)),
        dict(store.task_locality),
        overrides=OperatorOverrides.from_json(store.overrides.to_json()),
    )
    state = AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(replication_factor=factor)))
    return Story(state=next_agent(state, jvm.hello(now_ms), remembered, now_ms), now_ms=now_ms, orders=[jvm.plan])


def meet(state: AgentState, sharing: set[tuple[str, str, str]], one: Request, other: Request) -> bool:
    """Whether they are about one host or processor, or about one and another that shares a task with it."""
    if one.host_action or other.host_action:
        ends_it = HostAction.OPEN in (one.host_action, other.host_action)
        return about(state.fleet, one) == about(state.fleet, other) and not ends_it
    ours, theirs = concerned(state, one), concerned(state, other)
    if ours & theirs or (one.standby and other.standby):
        return bool(ours & theirs)
    return any({a, b} & ours and {a, b} & theirs for _, a, b in sharing)


def turn(request: Request) -> tuple[int, str]:
    return request.timestamp, str(request.uuid)


def about(fleet: Fleet, request: Request) -> str:
    """The processor, also of its standbys; or the host."""
    if request.host_action is not None:
        return f"host {request.destination_host}"
    id, dash, replica = request.processor_id.rpartition("-")
    is_of_a_standby = dash and id in fleet.processors and request.processor_id not in fleet.processors
    return id if is_of_a_standby and int(replica) < fleet.settings.replication_factor - 1 else request.processor_id


def concerned(state: AgentState, request: Request) -> set[str]:
    """A restart is about every processor on the executor that ends, while it lives."""
    ends = {a.source for a in state.queue.actions if a.request == request and a.is_restart_under_way}
    return {about(state.fleet, request), *(id for id, executor in state.fleet.executor_of.items() if executor in ends)}


def shared(model: JobModel) -> set[tuple[str, str, str]]:
    """Each task that has a copy, the processor that it is active on, and the one with the copy."""
    owner = {name: id for id, held in model.containers.items() for name in held.actives}
    return {
        (task.standby_of, owner.get(task.standby_of, ""), id)
        for id, held in model.containers.items()
        for task in held.tasks.values()
        if task.standby_of is not None
    }
