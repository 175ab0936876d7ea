"""What is written to have an application drained, as a value, and its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from uuid import UUID, uuid4

from mooring.errors import InvalidMessageError
from mooring.model.fields import Fields


class DrainMode(Enum):
    """How to drain. There is one way so far."""

    DEFAULT = "DEFAULT"


@dataclass(frozen=True, slots=True)
class DrainNotification:
    """Asks one deployment to drain: `run_id` is its id, so that the next one is not drained by a message of old.

    `query` is the name, or the id, of the one query that is meant; None for all of them.
    """

    uuid: UUID
    run_id: str
    drain_mode: DrainMode = DrainMode.DEFAULT
    query: str | None = None

    @classmethod
    def create(cls, run_id: str, query: str | None = None) -> DrainNotification:
        """A new one."""
        return cls(uuid4(), run_id, query=query)

    def to_json(self) -> str:
        """The JSON text."""
        form = {"uuid": str(self.uuid), "runId": self.run_id, "drainMode": self.drain_mode.value}
        return json.dumps(form if self.query is None else {**form, "query": self.query})

    @classmethod
    def from_json(cls, text: str | bytes) -> DrainNotification:
        """Read one; the mode in any case. InvalidMessageError names the field that is wrong; others are ignored."""
        fields = Fields(text)
        return cls(
            fields.uuid("uuid"),
            fields.text("runId", "the id of the application"),
            _mode(fields),
            fields.text("query", "the name or the id of a query") if fields.has("query") else None,
        )


def _mode(fields: Fields) -> DrainMode:
    expected = "one of " + ", ".join(mode.value for mode in DrainMode)
    text = fields.text("drainMode", expected)
    try:
        return DrainMode(text.upper())
    except ValueError:
        nearest = DrainMode.DEFAULT.value
        raise InvalidMessageError(
            f"drainMode is {json.dumps(text)}: expected {expected}; nearest valid value: {nearest}"
        ) from None
