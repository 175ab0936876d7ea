"""The agent that follows one that died, as `mooring.agent.loop` starts it."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.agent.agent_state import AgentState
from mooring.agent.core import absorb
from mooring.agent.recovery import recovered
from mooring.model import events
from mooring.records.records import Remembered


def next_agent(state: AgentState, hello: Iterable[events.Event], remembered: Remembered, now_ms: int) -> AgentState:
    """The state of an agent that has the settings of `state`, after the driver's first events.

    It recovers from the records with the first query, and not at all without one.
    """
    is_recovered = False
    for event in hello:
        if isinstance(event, events.QueryPlanned) and not is_recovered:
            state, is_recovered = recovered(absorb(state, event), remembered, now_ms), True
        state = absorb(state, event)
    return state
