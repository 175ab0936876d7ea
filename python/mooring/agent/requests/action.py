"""A request that the agent has taken up: its phase, and how it came there. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from mooring.agent.requests.orders import Answer
from mooring.agent.state.fleet import Fleet
from mooring.model.orders import Order
from mooring.placement import ContainerPlacementRequestMessage, StandbyAction, StatusCode
from mooring.placement.lifecycle import Happening, Phase, step
from mooring.records.operator_overrides import SavedProgress

READING_DELAY_MS: Final = 1_000
"""How long after its client's timestamp a request waits for requests that other clients wrote before it."""


class InvalidTransitionError(ValueError):
    """The transition table has no row for what has happened to a request; the message tells the request's story."""


@dataclass(frozen=True, slots=True)
class Action:
    """A request in one phase of `mooring.placement.lifecycle`, which began at `since_ms`.

    `source` is the executor that the request leaves or ends, `destination` the one that it goes to. `version` is the
    version of the job model that has what the request asks for. `saved_progress` is the progress that an earlier agent
    recorded, None where it had not begun the request. `is_given_up` is true for a restart whose source the JVM could
    not end.

    `processors` are those that the request was about when it began, `sharing` those that shared tasks with them then.
    No other action begins for them, even when the executor is gone meanwhile and its copies are elsewhere.

    `was_elsewhere` is true where the processor was not at the destination when the agent accepted the request.
    `repeats` is the uuid of a request for the same processor and destination that has succeeded since this one was
    made; None without one. `mooring.agent.requests.already_there` sets and uses both.

    `earlier` are the phases before this one, each with the time at which it began. The phase changes by `after` only.
    """

    request: ContainerPlacementRequestMessage
    phase: Phase = Phase.CREATED
    since_ms: int = 0
    source: str = ""
    destination: str = ""
    version: int = -1
    saved_progress: SavedProgress | None = None
    is_given_up: bool = False
    processors: frozenset[str] = frozenset()
    sharing: frozenset[str] = frozenset()
    was_elsewhere: bool = False
    repeats: UUID | None = None
    earlier: tuple[tuple[Phase, int], ...] = ()

    @classmethod
    def accepted(
        cls, request: ContainerPlacementRequestMessage, now_ms: int = 0, saved_progress: SavedProgress | None = None
    ) -> Action:
        """A request that can be done and waits for its turn; `saved_progress` is of an earlier agent."""
        created = cls(request, since_ms=now_ms, saved_progress=saved_progress)
        if saved_progress is not None:
            created = replace(created, processors=saved_progress.processors, sharing=saved_progress.sharing)
        return created.after(Happening.CAN_BE_DONE, now_ms)

    def after(self, happening: Happening, now_ms: int) -> Action:
        """The action in the phase that the transition table has next. InvalidTransitionError where it has none."""
        try:
            phase = step(self.phase, happening)
        except ValueError as illegal:
            raise InvalidTransitionError(f"{illegal}; {self.story}") from illegal
        return replace(self, phase=phase, since_ms=now_ms, earlier=(*self.earlier, (self.phase, self.since_ms)))

    @property
    def story(self) -> str:
        """What is asked, and every phase so far with the time at which it began, in milliseconds since 1970."""
        phases = [f"{phase.label} at {at_ms}" for phase, at_ms in (*self.earlier, (self.phase, self.since_ms))]
        return f"request {self.request.uuid} ({self.in_words}): {', '.join(phases)}"

    @property
    def is_under_way(self) -> bool:
        """Whether the request's turn has come."""
        return self.phase not in (Phase.CREATED, Phase.WAITING)

    @property
    def is_restart_under_way(self) -> bool:
        """Whether it will end the source, or has ended it."""
        return self.phase in (Phase.AWAITING_COPIES, Phase.RESTARTING)

    @property
    def needs_reading_from_ms(self) -> int:
        """A reading of the store that begins at this time or later has every request that was written before this one.

        If the client's clock is ahead, the time at which the agent saw the request counts. A request that an earlier
        agent began waits for no reading.
        """
        return min(self.request.timestamp, self.since_ms) + READING_DELAY_MS if self.saved_progress is None else 0

    @property
    def in_words(self) -> str:
        """What is asked, in words."""
        request = self.request
        if request.host_action is not None:
            return f"{request.host_action.value.lower()} host {request.destination_host}"
        if request.standby is None:
            return f"place processor {request.processor_id} on {request.destination_host}"
        verb = "stop" if request.standby is StandbyAction.STOP else "start"
        return f"{verb} the standbys of processor {request.processor_id}"

    @property
    def progress_to_save(self) -> SavedProgress:
        """The progress that is recorded for the agent after this one."""
        return SavedProgress(self.phase.label, self.source, self.destination, self.processors, self.sharing)

    def is_of_a_standby(self, fleet: Fleet) -> bool:
        """Whether it moves or restarts a standby of a processor, such as 4-0."""
        id = self.request.processor_id
        return fleet.base_of(id) != id and self.request.standby is None

    def answered(self, message: str, now_ms: int) -> Order:
        """The answer for the phase it is in."""
        return Answer(self.request.answered(self.phase.status, message, now_ms))

    def in_progress(self, now_ms: int) -> Order:
        """The answer IN_PROGRESS, which clients are to see before the final answer to an accepted request."""
        return Answer(self.request.answered(StatusCode.IN_PROGRESS, self.in_words, now_ms))
