"""The requests of operators that are not done yet, and the newest ones ever seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final
from uuid import UUID

from mooring.agent.requests.action import Action
from mooring.agent.requests.already_there import noted_at_success
from mooring.agent.requests.orders import Answer, RemoveMessages
from mooring.model.orders import LogLine, Order
from mooring.placement import ContainerPlacementRequestMessage, ContainerPlacementResponseMessage, StatusCode
from mooring.records.operator_overrides import FinalAnswer, SavedProgress

REMEMBERED_REQUESTS = 20_000
"""How many uuids the agent remembers, so that it acts on each once."""

SHOWN_ANSWERS: Final = 20
"""How many answers to finished requests the status shows."""

Responses = tuple[ContainerPlacementResponseMessage, ...]
"""The newest last."""


@dataclass(frozen=True, slots=True)
class RequestQueue:
    """The requests that are not done yet, in the order in which they are served.

    `seen` are the uuids of the newest requests ever seen, in the order in which they came. `history` are the answers
    to the last finished requests, the newest last; `failed` counts the requests that have failed.

    `saved_progress` is the progress that an earlier agent recorded, by uuid of the request; an action has its own.
    `answered_requests` are the final answers of requests that are still in the store, by uuid: the answer may not have
    been written yet. `ended_restarts` are the requests whose restarts are over, and which the JVM still keeps.
    `read_ms` is when the last reading of the store began.
    """

    actions: tuple[Action, ...] = ()
    seen: Mapping[UUID, None] = field(default_factory=dict)
    saved_progress: Mapping[str, SavedProgress] = field(default_factory=dict)
    history: Responses = ()
    failed: int = 0
    answered_requests: Mapping[str, FinalAnswer] = field(default_factory=dict)
    ended_restarts: frozenset[str] = frozenset()
    read_ms: int = 0

    def waits_for_reading(self, as_of_ms: int) -> bool:
        """Whether a waiting request may begin once the agent knows that a reading began at `as_of_ms`."""
        waiting = [action for action in self.actions if not action.is_under_way]
        return any(self.read_ms < action.needs_reading_from_ms <= as_of_ms for action in waiting)

    def with_accepted(self, accepted: Iterable[Action], seen: Mapping[UUID, None]) -> RequestQueue:
        """The queue with more actions; of the uuids in `seen` the newest are remembered."""
        excess = len(seen) - REMEMBERED_REQUESTS
        newest = dict(islice(seen.items(), excess, None)) if excess > 0 else seen
        actions = tuple(sorted((*self.actions, *accepted), key=lambda action: order_key(action.request)))
        return replace(self, actions=actions, seen=newest)

    def with_action(self, action: Action) -> RequestQueue:
        """The queue with this action in place of the one of the same request."""
        uuid = action.request.uuid
        return replace(self, actions=tuple(action if a.request.uuid == uuid else a for a in self.actions))

    @property
    def being_restarted(self) -> frozenset[str]:
        """The executors that will end, or have ended, for a request that is not finished."""
        return frozenset(a.source for a in self.actions if a.is_restart_under_way and a.source)

    def with_restart_given_up(self, request: str) -> RequestQueue:
        """The queue after the JVM has said that it could not end the executor for the request of this uuid."""
        given_up = (replace(a, is_given_up=a.is_given_up or str(a.request.uuid) == request) for a in self.actions)
        return replace(self, actions=tuple(given_up))

    def with_answer(self, response: ContainerPlacementResponseMessage) -> RequestQueue:
        """The queue with one more final answer in its history."""
        return replace(self, history=(*self.history, response)[-SHOWN_ANSWERS:])

    def finished(self, action: Action, message: str, now_ms: int) -> tuple[RequestQueue, list[Order]]:
        """The queue without an action that is over, and the orders that answer and remove its request.

        The answer is written into the log too. Waiting requests that repeat a request that succeeded note its uuid.
        """
        request, status = action.request, action.phase.status
        response = request.answered(status, message, now_ms)
        line = LogLine(
            f"request {request.uuid} ({action.in_words}) {status.value}: {message}",
            is_warning=status is not StatusCode.SUCCEEDED,
        )
        remaining = tuple(a for a in self.actions if a.request.uuid != request.uuid)
        if status is StatusCode.SUCCEEDED:
            remaining = tuple(noted_at_success(a, request) for a in remaining)
        final_answer = FinalAnswer(status.value, response.response_message)
        queue = replace(
            self.with_answer(response),
            actions=remaining,
            failed=self.failed + (status is StatusCode.FAILED),
            answered_requests={**self.answered_requests, str(request.uuid): final_answer},
        )
        return queue, [Answer(response), RemoveMessages(request.uuid), line]


def order_key(request: ContainerPlacementRequestMessage) -> tuple[int, str]:
    """The key by which requests are served: the client's timestamp, then the uuid."""
    return request.timestamp, str(request.uuid)
