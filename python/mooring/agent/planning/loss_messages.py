"""The log line for an executor that is lost. Pure."""

from __future__ import annotations

from mooring.agent.messages.listing import listed
from mooring.agent.state.fleet import Fleet
from mooring.model import events, natural_order

_MOST_NAMES = 5


def describe_loss(before: Fleet, event: events.Event) -> list[str]:
    """The log line for the loss of an executor. `before` is the fleet before the event.

    There is none for the second event about an executor, and none at an ordinary end of the application.
    """
    if not isinstance(event, events.ExecutorLost) or event.is_ordinary or event.executor not in before.executors:
        return []
    location = before.executors[event.executor].location
    reason = event.reason.strip().partition("\n")[0].rstrip(". ") or "no reason is known"
    return [f"executor {event.executor} on {location} counts as lost ({reason}): {_waiting(before, event.executor)}"]


def _waiting(before: Fleet, executor: str) -> str:
    """Which processors wait for another executor."""
    ids = sorted((id for id, carrier in before.executor_of.items() if carrier == executor), key=natural_order)
    if not ids:
        return "it had no processor"
    if len(ids) == 1:
        return f"processor {ids[0]} waits for another executor"
    return f"processors {listed(ids, _MOST_NAMES)} wait for another executor"
