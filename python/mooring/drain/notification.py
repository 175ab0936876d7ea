"""The notification that asks for a drain or a stop, as a value, and its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from uuid import UUID, uuid4

from mooring.errors import InvalidMessageError
from mooring.model.fields import Fields


class DrainMode(Enum):
    """How to drain. DEFAULT is the only mode."""

    DEFAULT = "DEFAULT"


class StopMode(Enum):
    """How to stop without a drain: state is kept for the next start. The slowest mode is the first one."""

    AFTER_AVAILABLE = "AFTER_AVAILABLE"
    """The query first processes all input that is there."""

    AFTER_BATCH = "AFTER_BATCH"
    """The running batch is the last one."""

    NOW = "NOW"
    """The running batch is cut off, as by Spark's own stop, and repeated at the next start."""


@dataclass(frozen=True, slots=True)
class DrainNotification:
    """Asks one deployment to drain or to stop queries.

    `run_id` is the id of the deployment, so an old notification does not drain a later deployment. `query` is the name
    or the id of one query; None means all queries. With `stop`, queries are stopped and not drained.
    """

    uuid: UUID
    run_id: str
    drain_mode: DrainMode = DrainMode.DEFAULT
    query: str | None = None
    stop: StopMode | None = None

    @classmethod
    def create(cls, run_id: str, query: str | None = None, stop: StopMode | None = None) -> DrainNotification:
        """A notification with a new uuid."""
        return cls(uuid4(), run_id, query=query, stop=stop)

    def to_json(self) -> str:
        """The JSON text."""
        form = {"uuid": str(self.uuid), "runId": self.run_id, "drainMode": self.drain_mode.value}
        of_one = {} if self.query is None else {"query": self.query}
        how = {} if self.stop is None else {"stop": self.stop.value}
        return json.dumps({**form, **of_one, **how})

    @classmethod
    def from_json(cls, text: str | bytes) -> DrainNotification:
        """Read a notification; the mode may be in upper or lower case.

        InvalidMessageError names the field that is wrong; unknown fields are ignored.
        """
        fields = Fields(text)
        return cls(
            fields.uuid("uuid"),
            fields.text("runId", "the id of the application"),
            _mode(fields),
            fields.text("query", "the name or the id of a query") if fields.has("query") else None,
            fields.choice("stop", StopMode) if fields.has("stop") else None,
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
