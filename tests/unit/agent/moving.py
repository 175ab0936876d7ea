"""What tests of moves and restarts ask of an application, and the agent that follows one that died."""

from __future__ import annotations

from mooring.agent.agent_state import AgentState
from mooring.agent.state.fleet import Fleet, Query
from mooring.agent.state.fleet_parts import PlacementSettings
from mooring.model import events
from mooring.model.orders import RestartExecutor
from mooring.records.operator_overrides import OperatorOverrides, SaveOverrides
from mooring.records.records import Remembered
from tests.unit.agent.builders import TIMING, Story, running
from tests.unit.agent.next_agent import next_agent
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


def kept_overrides(story: Story) -> OperatorOverrides | None:
    return next((order.overrides for order in reversed(story.orders) if isinstance(order, SaveOverrides)), None)


def planned_again(query: Query) -> events.QueryPlanned:
    """As the JVM tells it to a later agent, with the batch after the one that was committed last."""
    return events.QueryPlanned(0, query.id, query.run, query.name, query.checkpoint, query.batch + 1, query.partitions)


def a_new_agent(story: Story, overrides: OperatorOverrides | None = None) -> Queues:
    """The agent that follows the one of the story, with the overrides that it has kept, or with these."""
    old = story.state.fleet
    overrides = overrides or kept_overrides(story) or OperatorOverrides()
    factor, has_host_affinity = old.settings.replication_factor, old.settings.has_host_affinity
    settings = PlacementSettings(replication_factor=factor, has_host_affinity=has_host_affinity)
    fleet = Fleet(timing=TIMING, settings=settings)
    remembered = Remembered(old.model, old.task_locality, overrides=overrides)
    state = next_agent(AgentState(fleet=fleet), _hello(story), remembered, story.now_ms)
    new = Story(state=state, now_ms=story.now_ms)
    new.after(0)
    return Queues(new)


def _hello(story: Story) -> list[events.Event]:
    """What the driver tells an agent at its start, in that order."""
    old, now_ms = story.state, story.now_ms
    restarts = [order for order in story.orders if isinstance(order, RestartExecutor)]
    return [
        events.PlanInForce(now_ms, old.version_in_force, story.rows, old.version_in_force),
        *(events.ExecutorRestarting(now_ms, order.request, order.executor) for order in restarts),
        events.ApplicationStarted(now_ms, old.fleet.application.id, "clicks", {}, ""),
        *(events.ExecutorRegistered(now_ms, one.id, one.location, 1) for one in old.fleet.executors.values()),
        *map(planned_again, old.fleet.queries.values()),
    ]


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
