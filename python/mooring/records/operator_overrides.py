"""What an agent saves for the next one: requests of operators and their progress, and the tasks that are lent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from mooring.model import natural_order
from mooring.model.orders import Order, OrderRank
from mooring.placement import StatusCode


@dataclass(frozen=True, slots=True)
class SavedProgress:
    """The progress of a request that is under way: the label of its phase, and its source and destination executor.

    `processors` are those that the request was about when it began. `sharing` are those that shared tasks with them at
    that time. The JSON calls the destination `executor`, and the processors `beside`.
    """

    phase: str
    source: str
    destination: str
    processors: frozenset[str] = frozenset()
    sharing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """The final status of a request, and its message."""

    status: str
    message: str


LoanKey = tuple[str, str]
"""Query id and executor."""


@dataclass(frozen=True, slots=True)
class SavedLoan:
    """What a new agent must know of a loan. `loan_count` counts this loan, the loans before it, and failed trials."""

    reason: str = ""
    trial_at_ms: int = 0
    loan_count: int = 1


@dataclass(frozen=True, slots=True)
class OperatorOverrides:
    """What the next agent of this attempt at the application must know. Empty where there is nothing.

    `stopped` are the processors whose standbys are stopped. `spare` are the processors that moves have left without
    tasks. `carriers` maps processors to their executor, where that executor has several processors. `saved_progress`
    maps the uuid of a request that is under way to its progress. `done` maps the uuid of a request to its final answer,
    while that answer may not be written yet. `drained` are the hosts that operators want empty. `pinned` maps a standby
    of a processor, such as 4-0, to the location that an operator wants for it. `loans` are the tasks that are lent.
    """

    application: str = ""
    stopped: frozenset[str] = frozenset()
    spare: frozenset[str] = frozenset()
    carriers: Mapping[str, str] = field(default_factory=dict)
    saved_progress: Mapping[str, SavedProgress] = field(default_factory=dict)
    done: Mapping[str, FinalAnswer] = field(default_factory=dict)
    drained: frozenset[str] = frozenset()
    pinned: Mapping[str, str] = field(default_factory=dict)
    attempt: str = ""
    loans: Mapping[LoanKey, SavedLoan] = field(default_factory=dict)

    @property
    def is_set(self) -> bool:
        """Whether there is anything to save."""
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
                        "phase": progress.phase,
                        "source": progress.source,
                        "executor": progress.destination,
                        "beside": sorted(progress.processors, key=natural_order),
                        "sharing": sorted(progress.sharing, key=natural_order),
                    }
                    for uuid, progress in self.saved_progress.items()
                },
                "done": {
                    uuid: {"status": answer.status, "message": answer.message} for uuid, answer in self.done.items()
                },
                "drained-hosts": sorted(self.drained, key=natural_order),
                "pinned-standbys": dict(self.pinned),
                "attempt": self.attempt,
                "loans": [
                    {
                        "query": query,
                        "executor": executor,
                        "reason": loan.reason,
                        "trial-at": loan.trial_at_ms,
                        "times": loan.loan_count,
                    }
                    for (query, executor), loan in self.loans.items()
                ],
            }
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> OperatorOverrides:
        """The overrides of a JSON text; keys that an earlier version did not write are empty. ValueError for others."""
        try:
            form = json.loads(text)
            return cls(
                _text(form["application"]),
                frozenset(map(_text, _list(form.get("stopped-standbys", [])))),
                frozenset(map(_text, _list(form.get("spare", [])))),
                {_text(id): _text(executor) for id, executor in form.get("carriers", {}).items()},
                {
                    _text(uuid): SavedProgress(
                        _text(progress["phase"]),
                        _text(progress["source"]),
                        _text(progress["executor"]),
                        frozenset(map(_text, _list(progress.get("beside", [])))),
                        frozenset(map(_text, _list(progress.get("sharing", [])))),
                    )
                    for uuid, progress in form.get("under-way", {}).items()
                },
                {
                    _text(uuid): FinalAnswer(StatusCode(answer["status"]).value, _text(answer["message"]))
                    for uuid, answer in form.get("done", {}).items()
                },
                frozenset(map(_text, _list(form.get("drained-hosts", [])))),
                {_text(id): _text(place) for id, place in form.get("pinned-standbys", {}).items()},
                _text(form.get("attempt", "")),
                {
                    (_text(loan["query"]), _text(loan["executor"])): SavedLoan(
                        _text(loan.get("reason", "")), _number(loan.get("trial-at", 0)), _number(loan.get("times", 1))
                    )
                    for loan in _list(form.get("loans", []))
                },
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as damage:
            raise ValueError(f"{damage!r}") from damage


FAILED_WITH_ITS_ATTEMPT: Final = FinalAnswer(
    StatusCode.FAILED.value,
    "it was under way when the attempt at this application before this one ended, and is not done again",
)
"""The answer to a request whose executors have ended with their driver."""

NO_OVERRIDES: Final = OperatorOverrides()


@dataclass(frozen=True, slots=True)
class SaveOverrides(Order):
    """Save the overrides in the metadata store."""

    rank: ClassVar[OrderRank] = OrderRank.SAVE_OVERRIDES
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
