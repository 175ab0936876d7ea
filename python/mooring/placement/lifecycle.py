"""The life of a request: one table of phases, and what leads from one to the next. Pure.

The agent's phases are finer than the status that clients see; each phase has one status. `step` refuses what is not in
the table. `mooring states` prints the table, and docs/reference/states.md has the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from mooring.placement.messages import StatusCode


class Phase(Enum):
    """The phase of a request, and the status that clients see."""

    CREATED = "created", StatusCode.CREATED
    REFUSED = "refused", StatusCode.BAD_REQUEST
    WAITING = "waiting", StatusCode.ACCEPTED
    RESERVING = "reserving", StatusCode.IN_PROGRESS
    WARMING_UP = "warming up", StatusCode.IN_PROGRESS
    SWITCHING = "switching", StatusCode.IN_PROGRESS
    CLOSING_COPIES = "letting go of copies", StatusCode.IN_PROGRESS
    AWAITING_COPIES = "waiting for copies", StatusCode.IN_PROGRESS
    RESTARTING = "restarting", StatusCode.IN_PROGRESS
    RENEWING_COPIES = "renewing copies", StatusCode.IN_PROGRESS
    EMPTYING = "emptying", StatusCode.IN_PROGRESS
    OPENING = "opening", StatusCode.IN_PROGRESS
    DONE = "done", StatusCode.SUCCEEDED
    FAILED = "failed", StatusCode.FAILED

    def __init__(self, label: str, status: StatusCode) -> None:
        self.label = label
        self.status = status


class Happening(Enum):
    """What ends a phase."""

    CAN_NOT_BE_DONE = "it can not be done"
    CAN_BE_DONE = "it can be done"
    TURN_TO_MOVE = "its turn has come, and nothing is to be restarted"
    TURN_TO_RESTART = "its turn has come, and the destination is where the processor is"
    TURN_TO_AWAIT_COPIES = "its turn has come, and copies of the tasks on its executor are not warm"
    TURN_TO_RESTART_COPIES = "its turn has come, and the destination is where the standby is"
    TURN_TO_CONTROL_STANDBYS = "its turn has come, and it is about standbys"
    TURN_TO_DRAIN = "its turn has come, and a host is to be empty"
    TURN_TO_OPEN = "its turn has come, and a host is to be open again"
    WAS_SWITCHED = "an agent before this one had switched it"
    NOT_POSSIBLE_ANY_MORE = "it can not be done any more"
    EXECUTOR_FOUND = "an executor is at the destination"
    IS_THERE = "it has come to the destination since the request was made"
    EXPIRED = "the time is over"
    WARM = "the copies there are warm"
    COPIES_WARM = "the copies of a standby are warm there"
    COVERED = "the tasks on its executor have warm copies, as far as they have any"
    CAN_NOT_WARM_UP = "the destination says that copies can not be made there"
    COPIES_GONE = "its executors have closed the copies"
    SOURCE_LOST = "the source is lost"
    DESTINATION_LOST = "the destination is lost"
    RAN_THERE = "a batch of each query has run there, or none runs"
    REPLACED = "another executor has taken its place"
    EMPTY = "no task and no copy is there any more"
    IN_FORCE = "the plan that has what was asked is in force"
    NO_JOB_MODEL = "no job model keeps all promises"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; `effect` is what the agent then does."""

    phase: Phase
    happening: Happening
    next: Phase
    effect: str


P, H = Phase, Happening
TABLE: Final = (
    Row(P.CREATED, H.CAN_NOT_BE_DONE, P.REFUSED, "nothing; the reason is in the answer"),
    Row(P.CREATED, H.CAN_BE_DONE, P.WAITING, "it waits for its turn"),
    Row(P.WAITING, H.TURN_TO_MOVE, P.RESERVING, "an executor at the destination is looked for"),
    Row(P.WAITING, H.TURN_TO_RESTART, P.RESTARTING, "the executor ends when no task runs on it"),
    Row(P.WAITING, H.TURN_TO_AWAIT_COPIES, P.AWAITING_COPIES, "the executor works on until the copies are warm"),
    Row(P.WAITING, H.TURN_TO_RESTART_COPIES, P.CLOSING_COPIES, "the executors close the copies"),
    Row(P.WAITING, H.TURN_TO_CONTROL_STANDBYS, P.RENEWING_COPIES, "the copies are planned again"),
    Row(P.WAITING, H.TURN_TO_DRAIN, P.EMPTYING, "tasks and copies leave the host, warm, and none come"),
    Row(P.WAITING, H.TURN_TO_OPEN, P.OPENING, "tasks and copies may come to the host"),
    Row(P.WAITING, H.WAS_SWITCHED, P.SWITCHING, "the agent waits for the batches after the switch"),
    Row(P.WAITING, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "nothing"),
    Row(P.RESERVING, H.EXECUTOR_FOUND, P.WARMING_UP, "copies of the tasks are made there; the source goes on"),
    Row(P.RESERVING, H.IS_THERE, P.DONE, "nothing"),
    Row(P.RESERVING, H.EXPIRED, P.FAILED, "nothing: the source was not touched"),
    Row(P.RESERVING, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "nothing"),
    Row(P.WARMING_UP, H.WARM, P.SWITCHING, "the tasks run there from the next batch on"),
    Row(P.WARMING_UP, H.COPIES_WARM, P.RENEWING_COPIES, "the standby is there; the copies at the source are dropped"),
    Row(P.WARMING_UP, H.SOURCE_LOST, P.SWITCHING, "the tasks run there at once"),
    Row(P.WARMING_UP, H.DESTINATION_LOST, P.FAILED, "the copies are dropped; the source was not touched"),
    Row(P.WARMING_UP, H.CAN_NOT_WARM_UP, P.FAILED, "the copies are dropped; the source was not touched"),
    Row(P.WARMING_UP, H.EXPIRED, P.FAILED, "the copies are dropped; the source was not touched"),
    Row(P.WARMING_UP, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "the copies are dropped"),
    Row(P.SWITCHING, H.RAN_THERE, P.DONE, "the tasks' rows name the source no longer"),
    Row(P.SWITCHING, H.DESTINATION_LOST, P.FAILED, "back at the source; if that is lost too, on any host"),
    Row(P.SWITCHING, H.EXPIRED, P.FAILED, "back at the source"),
    Row(P.SWITCHING, H.NO_JOB_MODEL, P.FAILED, "the last plan stays in force"),
    Row(P.SWITCHING, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "the tasks are on other processors"),
    Row(P.AWAITING_COPIES, H.COVERED, P.RESTARTING, "the executor ends when no task runs on it"),
    Row(P.AWAITING_COPIES, H.EXPIRED, P.RESTARTING, "the executor ends all the same"),
    Row(P.AWAITING_COPIES, H.SOURCE_LOST, P.RESTARTING, "another executor is waited for"),
    Row(P.AWAITING_COPIES, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "nothing"),
    Row(P.RESTARTING, H.REPLACED, P.DONE, "nothing"),
    Row(
        P.RESTARTING,
        H.EXPIRED,
        P.FAILED,
        "nothing: the executor works on; or the tasks run elsewhere, or on an executor that came too late",
    ),
    Row(P.RESTARTING, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "the tasks are on other processors"),
    Row(P.CLOSING_COPIES, H.COPIES_GONE, P.RENEWING_COPIES, "the copies are made again where they were"),
    Row(P.CLOSING_COPIES, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "the copies are made again"),
    Row(P.RENEWING_COPIES, H.IN_FORCE, P.DONE, "nothing"),
    Row(P.RENEWING_COPIES, H.NO_JOB_MODEL, P.FAILED, "the last plan stays in force"),
    Row(P.RENEWING_COPIES, H.DESTINATION_LOST, P.FAILED, "the copies are where the plan has them"),
    Row(P.RENEWING_COPIES, H.EXPIRED, P.FAILED, "the copies are made all the same"),
    Row(P.RENEWING_COPIES, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "nothing"),
    Row(P.EMPTYING, H.EMPTY, P.DONE, "the host stays empty until it is opened"),
    Row(P.EMPTYING, H.NOT_POSSIBLE_ANY_MORE, P.FAILED, "nothing: the host is open again"),
    Row(P.OPENING, H.IN_FORCE, P.DONE, "what comes is warm before it works"),
)
_NEXT: Final = {(row.phase, row.happening): row.next for row in TABLE}


def step(phase: Phase, happening: Happening) -> Phase:
    """The phase after this one. ValueError where the table has no such row."""
    if (phase, happening) not in _NEXT:
        raise ValueError(f"a request that is {phase.label} can not go on after: {happening.value}")
    return _NEXT[phase, happening]
