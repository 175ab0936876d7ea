"""What operators have said and what holds until they say otherwise, beyond the life of the agent that heard it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from mooring.model import natural_order
from mooring.model.orders import Order, OrderStage
from mooring.placement import StatusCode


@dataclass(frozen=True, slots=True)
class Begun:
    """How far a request was that is under way: the label of its phase, and the executors from and to which it goes.

    `beside` are the processors that it was about when it was begun, `sharing` those that shared tasks with them then.
    """

    phase: str
    source: str
    executor: str
    beside: frozenset[str] = frozenset()
    sharing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a request: its final status, and the message."""

    status: str
    message: str


Key = tuple[str, str]
"""Query id and executor."""


@dataclass(frozen=True, slots=True)
class KeptLoan:
    """What a new agent has to know of a loan. `times` counts the loans and failed trials there were with it."""

    reason: str = ""
    trial_at_ms: int = 0
    times: int = 1


@dataclass(frozen=True, slots=True)
class OperatorOverrides:
    """What holds in one application, and in one attempt at it; empty where nothing was asked.

    `stopped` are the processors whose standbys are stopped, `spare` those that moves have left behind. `carriers` maps
    processors to their executor where that has several, `under_way` requests, by uuid, to how far they are, `done`
    those whose answer may not be written yet to what it is. `drained` are the hosts that are to be empty, `pinned` maps
    standbys of processors (as 4-0) to the location where they are wanted. `loans` maps query id and executor to what
    is to be known of tasks that are lent.
    """

    application: str = ""
    stopped: frozenset[str] = frozenset()
    spare: frozenset[str] = frozenset()
    carriers: Mapping[str, str] = field(default_factory=dict)
    under_way: Mapping[str, Begun] = field(default_factory=dict)
    done: Mapping[str, Verdict] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    pinned: Mapping[str, str] = field(default_factory=dict)
    attempt: str = ""
    loans: Mapping[Key, KeptLoan] = field(default_factory=dict)

    @property
    def is_set(self) -> bool:
        """Whether there is anything to keep."""
        return self != OperatorOverrides(self.application, attempt=self.attempt)

    def to_json(self) -> str:
        """The JSON text."""
        return json.dumps(
            {
                "application": self.application,
                "stopped-standbys": sorted(self.stopped, key=natural_order),
                "spare": sorted(self.spare, key=natural_order),
                "carriers": dict(self.carriers),
                "under-way": {
                    uuid: {
                        "phase": begun.phase,
                        "source": begun.source,
                        "executor": begun.executor,
                        "beside": sorted(begun.beside, key=natural_order),
                        "sharing": sorted(begun.sharing, key=natural_order),
                    }
                    for uuid, begun in self.under_way.items()
                },
                "done": {uuid: {"status": said.status, "message": said.message} for uuid, said in self.done.items()},
                "drained-hosts": sorted(self.drained, key=natural_order),
                "pinned-standbys": dict(self.pinned),
                "attempt": self.attempt,
                "loans": [
                    {
                        "query": query,
                        "executor": executor,
                        "reason": loan.reason,
                        "trial-at": loan.trial_at_ms,
                        "times": loan.times,
                    }
                    for (query, executor), loan in self.loans.items()
                ],
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> OperatorOverrides:
        """Read one; what an earlier version did not write is empty. ValueError when it is none."""
        try:
            form = json.loads(text)
            return cls(
                _text(form["application"]),
                frozenset(map(_text, _list(form.get("stopped-standbys", [])))),
                frozenset(map(_text, _list(form.get("spare", [])))),
                {_text(id): _text(executor) for id, executor in form.get("carriers", {}).items()},
                {
                    _text(uuid): Begun(
                        _text(begun["phase"]),
                        _text(begun["source"]),
                        _text(begun["executor"]),
                        frozenset(map(_text, _list(begun.get("beside", [])))),
                        frozenset(map(_text, _list(begun.get("sharing", [])))),
                    )
                    for uuid, begun in form.get("under-way", {}).items()
                },
                {
                    _text(uuid): Verdict(StatusCode(said["status"]).value, _text(said["message"]))
                    for uuid, said in form.get("done", {}).items()
                },
                frozenset(map(_text, _list(form.get("drained-hosts", [])))),
                {_text(id): _text(place) for id, place in form.get("pinned-standbys", {}).items()},
                _text(form.get("attempt", "")),
                {
                    (_text(loan["query"]), _text(loan["executor"])): KeptLoan(
                        _text(loan.get("reason", "")), _number(loan.get("trial-at", 0)), _number(loan.get("times", 1))
                    )
                    for loan in _list(form.get("loans", []))
                },
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as damage:
            raise ValueError(f"{damage!r}") from damage


FAILED_WITH_ITS_ATTEMPT: Final = Verdict(
    StatusCode.FAILED.value,
    "it was under way when the attempt at this application before this one ended, and is not done again",
)
"""What becomes of a request whose executors are gone with their driver."""

NO_OVERRIDES: Final = OperatorOverrides()


@dataclass(frozen=True, slots=True)
class SaveOverrides(Order):
    """Save what operators have asked."""

    stage: ClassVar[OrderStage] = OrderStage.SAVE_OVERRIDES
    overrides: OperatorOverrides


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, not {value!r}")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a number, not {value!r}")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, not {value!r}")
    return value
