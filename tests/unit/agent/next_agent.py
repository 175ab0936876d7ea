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

    It recovers from the records when it knows all queries, and not at all without one.
    """
    hello, is_recovered = list(hello), False
    for event in hello:
        if isinstance(event, events.QueryPlanned) and not is_recovered:
            for planned in hello:
                state = absorb(state, planned) if isinstance(planned, events.QueryPlanned) else state
            state, is_recovered = recovered(state, remembered, now_ms), True
        state = absorb(state, event)
    return state
