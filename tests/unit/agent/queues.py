"""A running application beside what is in the store for it, which clients write and the core answers."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

from mooring.agent.planning.copies import standbys_of, tasks_of_standbys
from mooring.agent.requests.inbox import RequestsRead
from mooring.agent.requests.orders import Answer, RemoveMessages
from mooring.grouping import check_standbys
from mooring.model import events
from mooring.placement import (
    ANY_PROCESSOR,
    STANDBY,
    ContainerPlacementRequestMessage,
    ContainerPlacementResponseMessage,
    HostAction,
    MalformedRequest,
    StandbyAction,
    StoredMessages,
)
from tests.unit.agent.builders import Story

APP = "app-1"
Request = ContainerPlacementRequestMessage


class Queues:
    """A running application, and what is in the store for it."""

    def __init__(self, story: Story) -> None:
        self.story = story
        story.take(events.ApplicationStarted(story.now_ms, APP, "clicks", {}, ""))
        self.requests: dict[UUID, Request] = {}
        self.malformed: dict[UUID, MalformedRequest] = {}
        self.responses: dict[UUID, ContainerPlacementResponseMessage] = {}
        self.said: list[tuple[UUID, str]] = []
        self.removed: list[UUID] = []
        self.batch = -1
        self._heard = len(story.orders)

    def asks(self, action: str, processor: str = "0", at_ms: int = 1, deployment: str = APP) -> Request:
        request = Request(uuid4(), deployment, processor, STANDBY, at_ms, standby=StandbyAction(action))
        self.requests[request.uuid] = request
        return request

    def places(
        self, processor: str, destination: str, at_ms: int = 1, expiry_ms: int | None = None, deployment: str = APP
    ) -> Request:
        request = Request(uuid4(), deployment, processor, destination, at_ms, expiry_ms)
        self.requests[request.uuid] = request
        return request

    def asks_of_host(self, action: HostAction, host: str, at_ms: int = 1) -> Request:
        request = Request(uuid4(), APP, ANY_PROCESSOR, host, at_ms, host_action=action)
        self.requests[request.uuid] = request
        return request

    def runs_a_batch(self, query: str = "q") -> None:
        """Each task on the first executor of its row that lives, as the JVM places it."""
        living = self.story.state.fleet.executors
        ran = {p: next(id for id in row if id in living) for p, row in self.story.rows[query].items()}
        self.batch += 1
        self.story.now_ms += 1
        ended = events.BatchEnded(self.story.now_ms, query, self.batch, 500, ran, 0, 0, 0)
        self.carry_out(lambda: self.story.take(ended))

    def begins_a_batch(self, query: str = "q") -> None:
        began = events.BatchBegan(self.story.now_ms, query, self.batch + 1)
        self.carry_out(lambda: self.story.take(began))

    def warms_up(self, behind: int = 0, trouble: tuple[str, int] = ("", 0)) -> None:
        """A round of the replica queries, and the tick that follows it."""
        executors = self.story.state.fleet.executors
        self.carry_out(lambda: self.story.sees_copies(*executors, behind=behind, trouble=trouble))
        self.after()

    def is_read(self) -> None:
        """The agent reads the store; what it orders is done."""
        now_ms = self.story.now_ms
        self.carry_out(lambda: self.story.take(RequestsRead(now_ms, self.stored(), now_ms)))

    def after(self, milliseconds: int = 100) -> None:
        self.carry_out(lambda: self.story.after(milliseconds))

    def stored(self) -> StoredMessages:
        return StoredMessages(dict(self.requests), dict(self.malformed), dict(self.responses))

    def carry_out(self, act: Callable[[], object]) -> None:
        act()
        self._carry_out_the_rest()

    def _carry_out_the_rest(self) -> None:
        """What was ordered since, also by events that were told to the story itself."""
        news, self._heard = self.story.orders[self._heard :], len(self.story.orders)
        for order in news:
            if isinstance(order, Answer):
                self.responses[order.response.request.uuid] = order.response
                self.said.append((order.response.request.uuid, order.response.status_code.value))
            if isinstance(order, RemoveMessages):
                self.requests.pop(order.uuid, None)
                self.malformed.pop(order.uuid, None)
                self.removed.append(order.uuid)
                if order.response_too:
                    self.responses.pop(order.uuid, None)

    def changes(self, request: Request) -> list[str]:
        self._carry_out_the_rest()
        return [status for uuid, status in self.said if uuid == request.uuid]

    def message(self, request: Request) -> str:
        self._carry_out_the_rest()
        return self.responses[request.uuid].response_message

    def copied(self) -> set[str]:
        """The processors whose actives have copies."""
        fleet = self.story.state.fleet
        owner = fleet.processor_of_task()
        return {owner[t.standby_of] for held in standbys_of(fleet, fleet.model).values() for t in held if t.standby_of}

    def check(self) -> None:
        fleet = self.story.state.fleet
        tasks = [task for query in fleet.queries.values() for task in query.tasks]
        pinned: dict[str, dict[int, str]] = {}
        for standby, name, replica in tasks_of_standbys(fleet, fleet.model, fleet.overrides.pinned_standbys):
            pinned.setdefault(name, {})[replica] = fleet.overrides.pinned_standbys[standby]
        stopped = fleet.overrides.stopped_standbys
        check_standbys(
            fleet.model, tasks, None, fleet.settings.replication_factor, None, fleet.executor_of, stopped, pinned
        )
