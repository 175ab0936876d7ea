"""What a driver's candidate knows of the election at one moment, as it is told to the JVM (docs/internals.md)."""

from __future__ import annotations

from dataclasses import dataclass

LEADING, WAITING, UNKNOWN, NONE, REFUSED = "leading", "waiting", "unknown", "none", "refused"

WORD_SECONDS = 3.0
"""How long a word holds that does not say that this driver leads."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One word of the agent's."""

    state: str
    """`leading`; `waiting`; `unknown` (no live connection, or nobody leads yet); `none` (no part in any election);
    `refused` (an option of the store is wrong, `leader` says which)."""
    leader: str = ""
    seconds: float = WORD_SECONDS
    """For how long it holds, whatever others do."""
    contested: bool = False
    """Whether another candidate waits for its turn."""
    epoch: str = ""
    """When this candidate leads: what stays the same while nobody else has led."""

    @classmethod
    def behind(cls, leader: str | None, own_name: str) -> Standing:
        """Of a candidate that does not lead: who does; unknown, for a moment, when that is nobody or itself."""
        return cls(UNKNOWN) if leader in (None, own_name) else cls(WAITING, str(leader))

    def as_json(self, said_at: float) -> dict[str, object]:
        """The form for `Bridge.reportStanding`; `said_at` in seconds since 1970, taken before anybody was asked."""
        return {
            "state": self.state,
            "leader": self.leader,
            "said-at": int(said_at * 1000),
            "good-for-ms": int(self.seconds * 1000),
            "contested": self.contested,
            "epoch": self.epoch,
        }
