"""The log line for a new job model: which tasks move, from where to where, and why. Pure."""

from __future__ import annotations

from typing import Final

from mooring.agent.messages.listing import listed
from mooring.agent.state.fleet import Fleet
from mooring.grouping import Move, MovePlan
from mooring.model import natural_order

MOST_NAMES: Final = 5
"""How many tasks are named of those that go from one processor to another."""

MOST_WAYS: Final = 10
"""How many pairs of source and destination are named."""


def describe_moves(fleet: Fleet, plan: MovePlan) -> str:
    """The log line for these moves. `fleet` is the fleet after them. Empty when only new tasks got a place.

    Moves are listed by source and destination. A processor that changed its location is listed as well.
    """
    ways: dict[tuple[str, str], list[Move]] = {}
    for move in plan.moves:
        if move.source_processor is not None:
            ways.setdefault((move.source_processor, move.destination_processor), []).append(move)
    if not ways:
        return ""
    descriptions = [
        _describe_way(fleet, ways[way]) for way in sorted(ways, key=lambda way: [natural_order(id) for id in way])
    ]
    return f"job model {fleet.model.version}: {listed(descriptions, MOST_WAYS, '; ')}"


def _describe_way(fleet: Fleet, moves: list[Move]) -> str:
    """The text for all moves from one processor to another, or for a processor that changed its location."""
    first = moves[0]
    names = listed([move.task_name for move in moves], MOST_NAMES)
    source, destination = first.source_processor, first.destination_processor
    locations = first.source_location, first.destination_location
    from_location, to_location = (location or "an unknown place" for location in locations)
    if source == destination:
        return f"processor {source} goes from {from_location} to {to_location} with {names}"
    way = f"from processor {source} at {from_location} to {destination} at {to_location}"
    return f"{names} {way} ({_reason(fleet, first)})"


def _reason(fleet: Fleet, move: Move) -> str:
    """Why the task left its processor."""
    source = fleet.processors.get(str(move.source_processor))
    if source is None or source.executor is None:
        return f"processor {move.source_processor} has no executor"
    if move.source_location in fleet.overrides.drained:
        return "that host is drained"
    return f"grouped by {fleet.settings.grouping.name}" if fleet.settings.grouping.is_users else "to share the load"
