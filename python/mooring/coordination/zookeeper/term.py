"""A term of leadership in ZooKeeper, and how a write is bound to it."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.coordination.leadership import Leadership
from mooring.errors import LeadershipLost
from mooring.metadata.zookeeper.commit import Guard

GENERATION = "generation"


@dataclass(frozen=True)
class ZkTerm(Leadership):
    """The generation is the version of `leader/generation`, which each leader writes; the candidate is ephemeral."""

    directory: str
    candidate: str
    epoch: str = ""
    """The same as long as terms of one candidate follow each other; it stands in the data of `leader/generation`."""


def guards_of(leadership: Leadership) -> tuple[Guard, ...]:
    """What must hold for a write of this leader: its session lives, and nobody has led since."""
    if not isinstance(leadership, ZkTerm):
        raise LeadershipLost(f"{leadership} is no term of an election in ZooKeeper")
    return (
        Guard(f"{leadership.directory}/{leadership.candidate}"),
        Guard(f"{leadership.directory}/{GENERATION}", leadership.generation),
    )


def lost(leadership: Leadership) -> LeadershipLost:
    """The error for an act that came too late."""
    return LeadershipLost(f"{leadership.leader} does not lead any more (its generation was {leadership.generation})")
