"""What the driver's log says of an application that begins well: where its records are, and that it is placed."""

from __future__ import annotations

import re
import shlex

from mooring.metadata.owners import UNKNOWN_OWNER, Owner
from mooring.model.orders import Rows

_REACHED_BY_COMMANDS = ("zk", "kafka")
_USER_OF_URI = re.compile(r"//[^/@]*@")


def records_are_in(place: str) -> str:
    """Where the records are, and the command that shows them."""
    return f"this application's records are in {shown(place)}; {_to_see(place)}"


def records_of_another_are_in(meant: str, owner: Owner, place: str) -> str:
    """Another application that runs has the usual place: where the records of this one are."""
    if owner == UNKNOWN_OWNER:
        return (
            f"the note of who keeps the records in {shown(meant)} is damaged, and is new, so that its owner may"
            f" run: this application keeps its own in {shown(place)}; {_to_see(place)}"
        )
    return (
        f"the records in {shown(meant)} are those of application {owner.application} on {owner.host}, which runs with"
        f" other checkpoints: this application keeps its own in {shown(place)}; {_to_see(place)}"
    )


def plan_is_in_force(query: str, version: int, rows: Rows, of: str) -> str:
    """The first plan for a query, by its name and its id `of`."""
    row = rows[of]
    executors = len({chosen[0] for chosen in row.values() if chosen})
    return f"query {query} is placed: {_count(len(row), 'task')} on {_count(executors, 'executor')}, version {version}"


def _to_see(place: str) -> str:
    scheme, is_uri, _ = place.partition("://")
    if is_uri and scheme not in _REACHED_BY_COMMANDS and scheme != "file":
        return (
            f"no command reaches {scheme}: storage: to see them, set spark.mooring.metadata to a mounted directory, to"
            " zk://… or to kafka://…"
        )
    return f"to see them: mooring status --metadata {shlex.quote(shown(place))}"


def shown(place: str) -> str:
    """A place, or a line with places, without what a URI may tell of who may use it."""
    return _USER_OF_URI.sub("//", place)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
