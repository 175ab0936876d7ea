"""Which requests of operators have to wait for which. Pure.

Requests about one processor wait for each other. So do requests about two processors that have copies of each other's
tasks, except two requests that only stop or start standbys. A restart is about all processors on the executor that
ends. Requests about one host wait for each other, but a host that is being emptied may be opened. A request to empty a
host also waits for requests that open any other host: the last open host can not be emptied.

There may be thousands of requests: each is looked up, not compared with every other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mooring.agent.requests import restart
from mooring.agent.requests.action import Action
from mooring.agent.state.fleet import Fleet
from mooring.placement import HostAction
from mooring.placement.lifecycle import Phase


class _Concerned:
    """The processors and hosts that some requests are about."""

    def __init__(self) -> None:
        self.processors: set[str] = set()
        self.sharing: set[str] = set()
        """The processors that share tasks with `processors`, as active and copy. Not for requests about standbys."""
        self.sharing_of_standby_requests: set[str] = set()
        """The same for requests that start or stop standbys. Such a request changes only its own processor's copies."""
        self.hosts: dict[str, set[Phase]] = {}
        self.opens_a_host = False


class Conflicts:
    """The requests for which a waiting request may have to wait.

    These are the requests that are under way, the ones that an earlier agent had begun, and the ones that `add` adds.
    An object is valid for one fleet, as long as `holds_for` returns true.
    """

    def __init__(self, fleet: Fleet, actions: Iterable[Action]) -> None:
        self._fleet = fleet
        self._on_executor: dict[str, set[str]] = {}
        """Executor to processors; also a lost executor, whose processors wait for the next one together."""
        for id, processor in fleet.processors.items():
            self._on_executor.setdefault(processor.last_executor, set()).add(id)
        self._sharing = _sharing(fleet)
        self._ahead = _Concerned()
        """Of the requests that are under way, and of the added ones that an earlier agent had begun."""
        self._of_saved_progress = _Concerned()
        """Of all requests that an earlier agent had begun, and that are not under way with this agent yet."""
        self._waiting = _Concerned()
        """Of the added requests that wait, and that no agent has begun."""
        self._busy: set[str] = set()
        for action in actions:
            if action.is_under_way:
                self.add(action)
            elif action.saved_progress is not None:
                self._put(self._of_saved_progress, action)
                if action.saved_progress.phase not in restart.LABELS:
                    self._busy |= {action.saved_progress.source, action.saved_progress.destination} - {""}

    def holds_for(self, fleet: Fleet) -> bool:
        """Whether the answers are still true for this fleet."""
        return fleet.model is self._fleet.model and fleet.processors is self._fleet.processors

    def add(self, action: Action) -> None:
        """Add a request for which requests that are looked up later may have to wait."""
        has_begun = action.is_under_way or action.saved_progress is not None
        self._put(self._ahead if has_begun else self._waiting, action)
        if action.is_under_way:
            self._busy |= {action.source, action.destination} - {""}

    def must_wait(self, action: Action) -> bool:
        """Whether a request that must not run at the same time comes first; `action` waits, and was not added.

        A request that an earlier agent had begun does not wait for a request that no agent had begun.
        """
        others = (
            (self._ahead,)
            if action.saved_progress is not None
            else (self._ahead, self._of_saved_progress, self._waiting)
        )
        return any(self._waits_for(concerned, action) for concerned in others)

    def with_scope(self, action: Action) -> Action:
        """The action with the processors that it is about now: the fleet may change while the request is under way."""
        if action.request.host_action is not None:
            return action
        processors = self._processors(action)
        sharing = self._sharing_with(processors)
        return replace(action, processors=action.processors | processors, sharing=action.sharing | sharing)

    def is_busy(self, executor: str) -> bool:
        """Whether a move goes to that executor, or would come back to it; also a move that an earlier agent began."""
        return executor in self._busy

    def _put(self, concerned: _Concerned, action: Action) -> None:
        if action.request.host_action is not None:
            concerned.hosts.setdefault(action.request.destination_host, set()).add(action.phase)
            concerned.opens_a_host |= action.request.host_action is HostAction.OPEN
            return
        processors = self._processors(action)
        concerned.processors |= processors | action.processors
        is_of_standbys = action.request.standby is not None
        sharing = concerned.sharing_of_standby_requests if is_of_standbys else concerned.sharing
        sharing |= action.sharing | self._sharing_with(processors)

    def _sharing_with(self, processors: Iterable[str]) -> frozenset[str]:
        """Those that hold copies of these processors' tasks, and those whose tasks have copies on these processors."""
        return frozenset[str]().union(*(self._sharing.get(id, ()) for id in processors))

    def _waits_for(self, concerned: _Concerned, action: Action) -> bool:
        if action.request.host_action is not None:
            phases = concerned.hosts.get(action.request.destination_host, set())
            if action.request.host_action is HostAction.OPEN:
                return bool(phases - {Phase.EMPTYING})
            return concerned.opens_a_host or bool(phases)
        processors = self._processors(action)
        if processors & (concerned.processors | concerned.sharing):
            return True
        return action.request.standby is None and bool(processors & concerned.sharing_of_standby_requests)

    def _processors(self, action: Action) -> set[str]:
        """The processor of the request, and for a restart every other one on the executor that ends."""
        ends = self._executor_to_end(action)
        on_executor = self._on_executor.get(ends, set()) if ends else set()
        return {self._fleet.base_of(action.request.processor_id), *on_executor}

    def _executor_to_end(self, action: Action) -> str:
        """The executor that a restart ends, or will end; empty for any other request."""
        if action.is_restart_under_way:
            return action.source
        request, fleet = action.request, self._fleet
        if action.is_under_way or request.standby is not None or request.processor_id not in fleet.processors:
            return ""
        return fleet.processors[request.processor_id].last_executor if restart.is_to_restart(fleet, action) else ""


def _sharing(fleet: Fleet) -> dict[str, set[str]]:
    """Processor to the processors that have a copy of one of its tasks, and those of whose tasks it has a copy."""
    owner, sharing = fleet.processor_of_task(), dict[str, set[str]]()
    for holder, container in fleet.model.containers.items():
        for task in container.tasks.values():
            id = None if task.standby_of is None else owner.get(task.standby_of)
            if id is not None:
                sharing.setdefault(id, set()).add(holder)
                sharing.setdefault(holder, set()).add(id)
    return sharing
