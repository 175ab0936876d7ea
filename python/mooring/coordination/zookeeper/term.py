"""A term of leadership in ZooKeeper, and the guards that make writes fail after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from kazoo.exceptions import ZookeeperError

from mooring.coordination.leadership import Leadership
from mooring.errors import LeadershipLost
from mooring.metadata.zookeeper.commit import Guard
from mooring.metadata.zookeeper.connection import ZkConnection

GENERATION = "generation"


@dataclass(frozen=True)
class ZkTerm(Leadership):
    """A term. `generation` is the version of the node `leader/generation`, which each leader writes at its start.

    `candidate` is the name of the leader's ephemeral node in `directory`. `epoch` is the same in successive terms of
    one candidate, and is in the data of `leader/generation`.
    """

    directory: str
    candidate: str
    epoch: str = ""


def guards_of(leadership: Leadership) -> tuple[Guard, ...]:
    """The conditions of a leader's write: its session lives, and no other candidate has led since."""
    if not isinstance(leadership, ZkTerm):
        raise LeadershipLost(f"{leadership} is no term of an election in ZooKeeper")
    return (
        Guard(f"{leadership.directory}/{leadership.candidate}"),
        Guard(f"{leadership.directory}/{GENERATION}", leadership.generation),
    )


def unchanged(leadership: Leadership) -> Callable[[Any], Any]:
    """A request for a transaction that changes nothing, and succeeds only in this term."""
    return partial(_check_only, guards=guards_of(leadership))


def confirm(connection: ZkConnection, leadership: Leadership) -> None:
    """Ask the servers whether the term goes on; LeadershipLost when it is over."""
    (answers,) = connection.ask([unchanged(leadership)])
    if any(isinstance(answer, ZookeeperError) for answer in answers):
        raise lost(leadership)


def lost(leadership: Leadership) -> LeadershipLost:
    """The error for an act after the term."""
    return LeadershipLost(f"{leadership.leader} does not lead any more (its generation was {leadership.generation})")


def _check_only(client: Any, guards: tuple[Guard, ...]) -> Any:
    transaction = client.transaction()
    for guard in guards:
        transaction.check(guard.path, guard.version)
    return transaction.commit_async()
