"""What a candidate knows of the election at one time, as the agent reports it to the JVM (docs/internals.md)."""

from __future__ import annotations

from dataclasses import dataclass

LEADING, WAITING, UNKNOWN, NONE, REFUSED = "leading", "waiting", "unknown", "none", "refused"

VALID_SECONDS = 3.0
"""How long a standing is valid that does not say that this driver leads, in seconds."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of one candidate in the election."""

    state: str
    """`leading`; `waiting`; `unknown` (no connection, or no driver leads yet); `none` (the driver is in no election);
    `refused` (an option of the store is wrong, and `leader` has the message)."""
    leader: str = ""
    seconds: float = VALID_SECONDS
    """How long the standing is valid, in seconds, whatever other candidates do."""
    contested: bool = False
    """Whether another candidate waits to lead."""
    epoch: str = ""
    """The term of this candidate while it leads. It stays the same until another candidate leads."""

    @classmethod
    def not_leading(cls, leader: str | None, own_name: str) -> Standing:
        """The standing of a candidate that does not lead; unknown where `leader` is None or the candidate itself."""
        return cls(UNKNOWN) if leader in (None, own_name) else cls(WAITING, str(leader))

    def as_json(self, said_at: float) -> dict[str, object]:
        """The JSON for `Bridge.reportStanding`. `said_at`: seconds since 1970, taken before the store was asked."""
        return {
            "state": self.state,
            "leader": self.leader,
            "said-at": int(said_at * 1000),
            "good-for-ms": int(self.seconds * 1000),
            "contested": self.contested,
            "epoch": self.epoch,
        }
