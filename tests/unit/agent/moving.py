"""What tests of moves and restarts ask of an application, and the agent that follows one that died."""

from __future__ import annotations

from dataclasses import replace

from mooring.agent.core import Mind, absorb
from mooring.agent.planning import binding
from mooring.agent.state.fleet import Fleet, Query
from mooring.model import events
from mooring.model.orders import RestartExecutor
from mooring.records.operator_overrides import OperatorsWord, SaveWord
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.desks import Desks

DONE = ["ACCEPTED", "IN_PROGRESS", "SUCCEEDED"]
FAILED = ["ACCEPTED", "IN_PROGRESS", "FAILED"]
FOUR = ("1@a", "2@b", "3@c", "4@d")


def tasks_of(desks: Desks, processor: str) -> set[int]:
    actives = desks.story.mind.fleet.model.containers[processor].actives
    return {int(name.rpartition(" ")[2]) for name in actives}


def where(desks: Desks, processor: str) -> set[str]:
    """The executors that the JVM prefers for the processor's tasks."""
    chosen = desks.story.first_choice("q")
    return {chosen[partition] for partition in tasks_of(desks, processor)}


def restarts(desks: Desks) -> list[str]:
    return [order.executor for order in desks.story.orders if isinstance(order, RestartExecutor)]


def sharing(desks: Desks, processor: str) -> list[str]:
    """Those with a copy of the processor's tasks, and those of whose tasks it has a copy."""
    owner, held = desks.story.mind.fleet.processor_of_task(), desks.story.mind.fleet.model.containers
    pairs = {(owner[t.standby_of], id) for id, one in held.items() for t in one.tasks.values() if t.standby_of}
    return sorted({other for pair in pairs if processor in pair for other in pair} - {processor})


def free_host(desks: Desks, processor: str = "0") -> str:
    """A host, not the processor's own, where no copy of its tasks is; and that of another processor."""
    fleet = desks.story.mind.fleet
    actives = fleet.model.containers[processor].actives
    held = {
        fleet.processors[id].location
        for id, container in fleet.model.containers.items()
        if any(task.standby_of in actives for task in container.tasks.values())
    }
    return min(set("bcd") - held)


def executor_at(desks: Desks, host: str) -> str:
    return next(id for id, executor in desks.story.mind.fleet.executors.items() if executor.location == host)


def kept_word(story: Story) -> OperatorsWord | None:
    return next((order.word for order in reversed(story.orders) if isinstance(order, SaveWord)), None)


def planned_again(query: Query) -> events.QueryPlanned:
    """As the JVM tells it to a later agent, with the batch after the one that was committed last."""
    return events.QueryPlanned(0, query.id, query.run, query.name, query.checkpoint, query.batch + 1, query.partitions)


def a_new_agent(story: Story, word: OperatorsWord | None = None) -> Desks:
    """One that is told what is true now, with what the last one has kept, unless another one has kept a later word."""
    old = story.mind
    word = word or kept_word(story) or OperatorsWord()
    fleet = Fleet(
        timing=TIMING,
        replication_factor=old.fleet.replication_factor,
        has_host_affinity=old.fleet.has_host_affinity,
        application=old.fleet.application,
    )
    mind = Mind(fleet=fleet)
    wanted = {(q, p): row[0] for q, rows in story.rows.items() for p, row in rows.items()}
    mind = absorb(mind, events.PlanInForce(story.now_ms, old.obeyed_version, wanted, old.obeyed_version))
    for executor in old.fleet.executors.values():
        mind = absorb(mind, events.ExecutorRegistered(story.now_ms, executor.id, executor.location, 1))
    for query in old.fleet.queries.values():
        mind = absorb(mind, planned_again(query))
    model, places = old.fleet.model, old.fleet.task_locality
    start = binding.remember(mind.fleet, model, places, story.now_ms, word, word.carriers)
    new = Story(mind=Mind(fleet=start, obeyed_version=mind.obeyed_version, saved_word=word), now_ms=story.now_ms)
    new.mind = replace(new.mind, desk=replace(new.mind.desk, begun=word.under_way, done_with=word.done))
    for order in story.orders:
        if isinstance(order, RestartExecutor):  # as the JVM tells every agent
            new.take(events.ExecutorRestarting(story.now_ms, order.request, order.executor))
    new.after(0)
    return Desks(new)


def warm_on_four(factor: int) -> Desks:
    """Four executors with a task each; with standbys, copies that are caught up."""
    desks = Desks(running(partitions=4, executors=FOUR, factor=factor))
    desks.warms_up()
    return desks


def two_on_one_executor() -> Desks:
    """Processors 0 and 1 are both on executor 1, and a batch has run there; each of the four has a task."""
    return _moved(running(partitions=4, executors=FOUR), "1", "a")


def has_moved(executors: tuple[str, ...] = ("1@a", "2@b", "3@c")) -> Desks:
    """Processor 0 has gone from a to b, and a batch has run there."""
    return _moved(running(partitions=4, executors=executors), "0", "b")


def _moved(story: Story, processor: str, destination: str) -> Desks:
    desks = Desks(story)
    desks.places(processor, destination)
    desks.is_read()
    desks.warms_up()
    desks.runs_a_batch()
    return desks
