"""Whose turn it is: which requests of operators wait for which.

Pure. Requests about one processor wait for each other, and so do those about a processor and about one that has copies
of its tasks; a restart is about all processors on the executor that ends. Requests about one host wait for each other,
but one that is being emptied may be opened. Each is looked up, not compared with every other: there may be thousands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mooring.agent.requests import restart
from mooring.agent.requests.queue import Action
from mooring.agent.state.fleet import Fleet
from mooring.placement import HostAction
from mooring.placement.lifecycle import Phase


class _Concerned:
    """What some requests are about."""

    def __init__(self) -> None:
        self.processors: set[str] = set()
        self.copies: set[str] = set()
        """Processors that share tasks with those, an active and its copy, by requests that are not about copies."""
        self.copies_of_standbys: set[str] = set()
        """The same by requests that start or stop standbys, each of which is about copies of its own."""
        self.hosts: dict[str, set[Phase]] = {}


class Turns:
    """What comes before a request: those under way, those that an agent before this one had begun, and what `add` adds.

    Good for one fleet, as long as `is_about` says so.
    """

    def __init__(self, fleet: Fleet, actions: Iterable[Action]) -> None:
        self._fleet = fleet
        self._on_executor: dict[str, set[str]] = {}
        """Also of one that is lost: its processors wait for the next together."""
        for id, processor in fleet.processors.items():
            self._on_executor.setdefault(processor.last_executor, set()).add(id)
        self._sharing = _sharing(fleet)
        self._ahead, self._begun, self._waiting = _Concerned(), _Concerned(), _Concerned()
        self._busy: set[str] = set()
        for action in actions:
            if action.is_under_way:
                self.add(action)
            elif action.begun is not None:
                self._put(self._begun, action)
                if action.begun.phase not in restart.LABELS:
                    self._busy |= {action.begun.source, action.begun.executor} - {""}

    def is_about(self, fleet: Fleet) -> bool:
        """Whether it still holds for this fleet."""
        return fleet.model is self._fleet.model and fleet.processors is self._fleet.processors

    def add(self, action: Action) -> None:
        """Those that are looked at later wait for this one; but what was begun waits for nothing that was not."""
        has_begun = action.is_under_way or action.begun is not None
        self._put(self._ahead if has_begun else self._waiting, action)
        if action.is_under_way:
            self._busy |= {action.source, action.executor} - {""}

    def has_to_wait(self, action: Action) -> bool:
        """Whether another one that it must not run beside comes first; `action` is waiting, and was not added."""
        others = (self._ahead,) if action.begun is not None else (self._ahead, self._begun, self._waiting)
        return any(self._waits_for(these, action) for these in others)

    def begun(self, action: Action) -> Action:
        """With what it is about, which is to be known as long as it is under way: by then the fleet may be another."""
        if action.request.host_action is not None:
            return action
        processors = self._processors(action)
        sharing = self._sharing_with(processors)
        return replace(action, beside=action.beside | processors, sharing=action.sharing | sharing)

    def is_busy(self, executor: str) -> bool:
        """Whether a processor is on its way to that executor, or has it for a refuge, or was before the agent died."""
        return executor in self._busy

    def _put(self, there: _Concerned, action: Action) -> None:
        if action.request.host_action is not None:
            there.hosts.setdefault(action.request.destination_host, set()).add(action.phase)
            return
        processors = self._processors(action)
        there.processors |= processors | action.beside
        copies = there.copies if action.request.standby is None else there.copies_of_standbys
        copies |= action.sharing | self._sharing_with(processors)

    def _sharing_with(self, processors: Iterable[str]) -> frozenset[str]:
        """Those that have copies of these processors' tasks, and of whose tasks these have some."""
        return frozenset[str]().union(*(self._sharing.get(id, ()) for id in processors))

    def _waits_for(self, there: _Concerned, action: Action) -> bool:
        if action.request.host_action is not None:
            phases = there.hosts.get(action.request.destination_host, set())
            opens = action.request.host_action is HostAction.OPEN
            return bool(phases - {Phase.EMPTYING} if opens else phases)
        processors = self._processors(action)
        if processors & (there.processors | there.copies):
            return True
        return action.request.standby is None and bool(processors & there.copies_of_standbys)

    def _processors(self, action: Action) -> set[str]:
        ends = self._ends(action)
        beside = self._on_executor.get(ends, set()) if ends else set()
        return {self._fleet.base_of(action.request.processor_id), *beside}

    def _ends(self, action: Action) -> str:
        """The executor that a restart ends, or will end; empty for any other request."""
        if action.is_restart_under_way:
            return action.source
        request, fleet = action.request, self._fleet
        if action.is_under_way or request.standby is not None or request.processor_id not in fleet.processors:
            return ""
        return fleet.processors[request.processor_id].last_executor if restart.is_to_restart(fleet, action) else ""


def _sharing(fleet: Fleet) -> dict[str, set[str]]:
    """Processor to those with a copy of its tasks, and those of whose tasks it has a copy."""
    owner, sharing = fleet.processor_of_task(), dict[str, set[str]]()
    for holder, container in fleet.model.containers.items():
        for task in container.tasks.values():
            id = None if task.standby_of is None else owner.get(task.standby_of)
            if id is not None:
                sharing.setdefault(id, set()).add(holder)
                sharing.setdefault(holder, set()).add(id)
    return sharing
