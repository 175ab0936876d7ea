"""What tests of moves and restarts ask of an application, and the agent that follows one that died."""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.core import AgentState, absorb
from mooring.agent.planning import binding
from mooring.agent.state.fleet import Fleet, Query
from mooring.model import events
from mooring.model.orders import RestartExecutor
from mooring.records.operator_overrides import OperatorOverrides, SaveOverrides
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.queues import Queues

DONE = ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]
FAILED = ["ACCEPTED", "IN_PROGRESS", "FAILED"]
FOUR = ("1@a", "2@b", "3@c", "4@d")


def tasks_of(queues: Queues, processor: str) -> set[int]:
    actives = queues.story.state.fleet.model.containers[processor].actives
    return {int(name.rpartition(" ")[2]) for name in actives}


def where(queues: Queues, processor: str) -> set[str]:
    """The executors that the JVM prefers for the processor's tasks."""
    chosen = queues.story.first_choice("q")
    return {chosen[partition] for partition in tasks_of(queues, processor)}


def restarts(queues: Queues) -> list[str]:
    return [order.executor for order in queues.story.orders if isinstance(order, RestartExecutor)]


def sharing(queues: Queues, processor: str) -> list[str]:
    """Those with a copy of the processor's tasks, and those of whose tasks it has a copy."""
    owner, held = queues.story.state.fleet.processor_of_task(), queues.story.state.fleet.model.containers
    pairs = {(owner[t.standby_of], id) for id, one in held.items() for t in one.tasks.values() if t.standby_of}
    return sorted({other for pair in pairs if processor in pair for other in pair} - {processor})


def free_host(queues: Queues, processor: str = "0") -> str:
    """A host, not the processor's own, where no copy of its tasks is; and that of another processor."""
    fleet = queues.story.state.fleet
    actives = fleet.model.containers[processor].actives
    held = {
        fleet.processors[id].location
        for id, container in fleet.model.containers.items()
        if any(task.standby_of in actives for task in container.tasks.values())
    }
    return min(set("bcd") - held)


def executor_at(queues: Queues, host: str) -> str:
    return next(id for id, executor in queues.story.state.fleet.executors.items() if executor.location == host)


def kept_word(story: Story) -> OperatorOverrides | None:
    return next((order.word for order in reversed(story.orders) if isinstance(order, SaveOverrides)), None)


def planned_again(query: Query) -> events.QueryPlanned:
    """As the JVM tells it to a later agent, with the batch after the one that was committed last."""
    return events.QueryPlanned(0, query.id, query.run, query.name, query.checkpoint, query.batch + 1, query.partitions)


def a_new_agent(story: Story, word: OperatorOverrides | None = None) -> Queues:
    """One that is told what is true now, with what the last one has kept, unless another one has kept a later word."""
    old = story.state
    word = word or kept_word(story) or OperatorOverrides()
    fleet = Fleet(
        timing=TIMING,
        replication_factor=old.fleet.replication_factor,
        has_host_affinity=old.fleet.has_host_affinity,
        application=old.fleet.application,
    )
    state = AgentState(fleet=fleet)
    wanted = {(q, p): row[0] for q, rows in story.rows.items() for p, row in rows.items()}
    state = absorb(state, events.PlanInForce(story.now_ms, old.version_in_force, wanted, old.version_in_force))
    for executor in old.fleet.executors.values():
        state = absorb(state, events.ExecutorRegistered(story.now_ms, executor.id, executor.location, 1))
    for query in old.fleet.queries.values():
        state = absorb(state, planned_again(query))
    model, places = old.fleet.model, old.fleet.task_locality
    start = binding.restore(state.fleet, model, places, story.now_ms, word, word.carriers)
    new = Story(
        state=AgentState(fleet=start, version_in_force=state.version_in_force, saved_overrides=word),
        now_ms=story.now_ms,
    )
    new.state = replace(new.state, queue=replace(new.state.queue, resumed=word.under_way, answered_requests=word.done))
    for order in story.orders:
        if isinstance(order, RestartExecutor):  # as the JVM tells every agent
            new.take(events.ExecutorRestarting(story.now_ms, order.request, order.executor))
    new.after(0)
    return Queues(new)


def warm_on_four(factor: int) -> Queues:
    """Four executors with a task each; with standbys, copies that are caught up."""
    queues = Queues(running(partitions=4, executors=FOUR, factor=factor))
    queues.warms_up()
    return queues


def two_on_one_executor() -> Queues:
    """Processors 0 and 1 are both on executor 1, and a batch has run there; each of the four has a task."""
    return _moved(running(partitions=4, executors=FOUR), "1", "a")


def has_moved(executors: tuple[str, ...] = ("1@a", "2@b", "3@c")) -> Queues:
    """Processor 0 has gone from a to b, and a batch has run there."""
    return _moved(running(partitions=4, executors=executors), "0", "b")


def _moved(story: Story, processor: str, destination: str) -> Queues:
    queues = Queues(story)
    queues.places(processor, destination)
    queues.is_read()
    queues.warms_up()
    queues.runs_a_batch()
    return queues
