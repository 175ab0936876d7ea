"""Short ways to say what happened to an application."""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.agent.agent_state import AgentState
from mooring.agent.core import decide
from mooring.agent.state.fleet import Fleet
from mooring.agent.state.fleet_parts import PlacementSettings, Timing
from mooring.model import events
from mooring.model.orders import AnnounceVersion, Order, PublishPlan, SaveBarrier, SaveJobModel

TIMING = Timing(debounce_ms=3_000, rebind_timeout_ms=60_000, first_plan_wait_ms=10_000)


@dataclass
class Story:
    """Feeds events to the core, one after the other, by a clock that the test moves."""

    state: AgentState = field(default_factory=lambda: AgentState(fleet=Fleet(timing=TIMING)))
    now_ms: int = 0
    orders: list[Order] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    """Executors that live and do not take up new versions; the others do at once."""

    def take(self, event: events.Event) -> list[Order]:
        self.state, new_orders = decide(self.state, event)
        self.orders += new_orders
        for announced in [order for order in new_orders if isinstance(order, AnnounceVersion)]:
            for executor in sorted(self.state.fleet.executors.keys() - self.silent):
                new_orders = [*new_orders, *self.take(events.PlanPickedUp(self.now_ms, executor, announced.version))]
        return new_orders

    def after(self, milliseconds: int) -> list[Order]:
        self.now_ms += milliseconds
        return self.take(events.ClockTicked(self.now_ms))

    def joins(self, *executors: str) -> None:
        """An executor is written `id@host`."""
        for executor in executors:
            id, host = executor.split("@")
            self.take(events.ExecutorRegistered(self.now_ms, id, host, 1))

    def dies(self, *executors: str) -> None:
        for id in executors:
            self.take(events.ExecutorLost(self.now_ms, id, "killed"))

    def plans(self, query: str, partitions: int = 6, name: str | None = None) -> list[Order]:
        label = query if name is None else name
        event = events.QueryPlanned(
            self.now_ms, query, f"run of {query}", label, f"file:/ck/{query}", 0, {0: partitions}
        )
        return self.take(event)

    def ends(self, query: str) -> None:
        self.take(events.QueryEnded(self.now_ms, query, f"run of {query}", ""))

    @property
    def rows(self) -> dict[str, dict[int, tuple[str, ...]]]:
        """What the JVM was told last."""
        published = [order for order in self.orders if isinstance(order, PublishPlan)]
        return {query: dict(rows) for query, rows in published[-1].rows.items()} if published else {}

    @property
    def copies(self) -> dict[str, dict[int, tuple[str, ...]]]:
        """Which executors the JVM was last told to keep copies on."""
        published = [order for order in self.orders if isinstance(order, PublishPlan)]
        return {query: dict(by) for query, by in published[-1].copies.items()} if published else {}

    def sees_copies(self, *executors: str, behind: int = 0, trouble: tuple[str, int] = ("", 0)) -> None:
        """A round of the replica queries: the copies on these executors are so many versions behind, and why."""
        for query, by in self.copies.items():
            seen = tuple(
                events.CopyOfState(partition, executor, 12 - behind, 250 * behind, 1_000, 77, *trouble)
                for partition, holders in by.items()
                for executor in holders
                if executor in executors
            )
            self.take(events.CopiesSeen(self.now_ms, query, 12, seen))

    def first_choice(self, query: str) -> dict[int, str]:
        return {partition: row[0] for partition, row in self.rows[query].items()}

    def sizes(self, query: str) -> list[int]:
        """How many tasks of the query each executor has, the greatest number first."""
        chosen = list(self.first_choice(query).values())
        return sorted((chosen.count(executor) for executor in set(chosen)), reverse=True)

    @property
    def barriers(self) -> dict[int, str]:
        """How the barrier of each version stands by the records."""
        return {order.version: order.state for order in self.orders if isinstance(order, SaveBarrier)}

    @property
    def saved(self) -> list[SaveJobModel]:
        return [order for order in self.orders if isinstance(order, SaveJobModel)]


def measured(story: Story, state_bytes: int, query: str = "q", partitions: int = 6) -> None:
    """Every partition has so many bytes of state."""
    for partition in range(partitions):
        place = f"file:/ck/{query}/state/0/{partition}"
        story.take(events.StateMeasured(story.now_ms, "1", place, state_bytes))


def running(
    query: str = "q", partitions: int = 6, executors: tuple[str, ...] = ("1@a", "2@b", "3@c"), factor: int = 1
) -> Story:
    """An application whose query has its plan."""
    story = Story(state=AgentState(fleet=Fleet(timing=TIMING, settings=PlacementSettings(replication_factor=factor))))
    story.joins(*executors)
    story.after(TIMING.debounce_ms)
    story.plans(query, partitions)
    return story
