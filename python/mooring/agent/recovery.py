"""Recovery: what a new agent makes of the records that an earlier agent or an earlier application has kept.

Pure. The records come from the metadata store (`mooring.records`). The state has the driver's first events
already.
"""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.agent_state import AgentState
from mooring.agent.planning import binding
from mooring.agent.planning.failover import with_failover
from mooring.agent.requests import restart
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import Overrides
from mooring.model import JobModel
from mooring.placement.lifecycle import Phase
from mooring.records.operator_overrides import FAILED_WITH_ITS_ATTEMPT, OperatorOverrides
from mooring.records.records import Remembered

_PHASES_THAT_FAIL_WITH_THEIR_DRIVER = (*restart.LABELS, Phase.SWITCHING.label)


def recovered(
    state: AgentState, remembered: Remembered, now_ms: int, follows_another_driver: bool = False
) -> AgentState:
    """The state of a new agent that has read the records before its first plan.

    `state` knows the executors, the plan of the JVM, and the queries, whose labels are needed to read that plan.
    `follows_another_driver`: this driver was a standby, and leads now in place of another one.
    """
    overrides = overrides_that_hold(state.fleet, remembered.overrides, follows_another_driver)
    carriers = remembered.overrides.carriers
    fleet = binding.restore(
        state.fleet, remembered.model, remembered.task_locality, now_ms, overrides, last_executors=carriers
    )
    fleet = replace(
        fleet,
        sizes=replace(fleet.sizes, remembered=remembered.state_bytes),
        overrides=replace(fleet.overrides, stopped_standbys=overrides.stopped, pinned_standbys=overrides.pinned),
    ).without_overrides_of_lost_processors()
    if fleet.rows_at_start:
        # An executor that is missing was lost while no agent ran. The JVM has sent its tasks to their copies by then.
        fleet = with_failover(fleet, state.rows_in_jvm, now_ms)
    saved_version = remembered.model.version if remembered.model else -1
    state = replace(state, fleet=fleet, saved_version=saved_version, saved_locality=fleet.task_locality)
    return _with_requests_of_the_last_agent(state, remembered, overrides)


def recovered_late(
    state: AgentState, remembered: Remembered, now_ms: int, follows_another_driver: bool = False
) -> AgentState:
    """The state of an agent that has planned without the records, as the store did not answer until now.

    Tasks that run stay where they are. The next job model gets a version above the remembered one, and is saved.
    """
    fleet, model = state.fleet, remembered.model
    version = max(fleet.model.version, model.version + 1 if model else 0)
    overrides = overrides_that_hold(fleet, remembered.overrides, follows_another_driver)
    same = _processors_at_their_remembered_location(fleet, model)
    standbys = fleet.standby_ids()
    pinned = {id: location for id, location in overrides.pinned.items() if standbys.get(id, ("", 0))[0] in same}
    fleet = replace(
        fleet,
        model=replace(fleet.model, version=version),
        task_locality={**remembered.task_locality, **fleet.task_locality},
        sizes=replace(fleet.sizes, remembered=remembered.state_bytes),
        overrides=Overrides(overrides.stopped & same, pinned, overrides.drained),
        lending=fleet.lending.with_saved_loans(overrides.loans),
    ).without_overrides_of_lost_processors()
    if fleet.overrides != Overrides():
        fleet = replace(fleet, timers=replace(fleet.timers, regroup_at_ms=now_ms))
    state = replace(state, fleet=fleet, saved_version=-1, saved_locality=remembered.task_locality)
    return _with_requests_of_the_last_agent(state, remembered, overrides)


def overrides_that_hold(fleet: Fleet, kept: OperatorOverrides, follows_another_driver: bool) -> OperatorOverrides:
    """What operators have asked in this attempt at this application, and what still holds of an earlier one.

    Of an earlier application or attempt these hold: drained hosts, spare processors, and pinned standbys, so that a
    restart on the same hosts undoes no move. `recovered` also keeps together the processors that shared an executor.
    Stopped standbys hold only for a driver that follows another one. Requests that were under way are not resumed, as
    the executors of the earlier attempt are gone. If such a request was in one of
    `_PHASES_THAT_FAIL_WITH_THEIR_DRIVER`, and belongs to this application, it is answered as failed. Others begin anew.
    """
    if (kept.application, kept.attempt) == (fleet.application.id, fleet.application.attempt):
        return kept
    failed = {
        uuid: FAILED_WITH_ITS_ATTEMPT
        for uuid, saved in kept.saved_progress.items()
        if saved.phase in _PHASES_THAT_FAIL_WITH_THEIR_DRIVER
    }
    return OperatorOverrides(
        stopped=kept.stopped if follows_another_driver else frozenset(),
        spare=kept.spare,
        drained=kept.drained,
        pinned=kept.pinned,
        done={**failed, **kept.done} if kept.application == fleet.application.id else {},
    )


def _with_requests_of_the_last_agent(
    state: AgentState, remembered: Remembered, overrides: OperatorOverrides
) -> AgentState:
    queue = replace(state.queue, saved_progress=overrides.saved_progress, answered_requests=overrides.done)
    return replace(state, queue=queue, saved_overrides=remembered.overrides)


def _processors_at_their_remembered_location(fleet: Fleet, model: JobModel | None) -> frozenset[str]:
    """The processors that remembered overrides may be about.

    The agent has numbered its processors without the records: an id may mean another processor there. Ids are taken
    for the same where the location is the same, and all are where no job model is remembered.
    """
    if model is None:
        return frozenset(fleet.processors)
    remembered = {id: container.location_id for id, container in model.containers.items()}
    return frozenset(id for id, processor in fleet.processors.items() if processor.location == remembered.get(id))
