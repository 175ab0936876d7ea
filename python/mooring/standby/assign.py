"""Who holds the copies of which task.

What is guaranteed, each among plans that keep all before it:
1. No copy is at the location of its active, and no two copies of a task are at one location. Processors without a
   location, and those that are not bound, get none.
2. Every task gets all its copies, or as many as there are other locations. What is missing is reported. Tasks that are
   active on processors whose standbys are stopped get none, and nothing is reported.
3. The active and the copies of a task are in as many zones as there can be. A copy shares a zone only when the task has
   more copies than there are other zones; such tasks are reported. So zones of unequal size get unequal load: who names
   zones wants to survive the loss of one. Locations without a zone count as one zone together.
4. Without weights: the numbers of copies are as even as 1 to 3 allow, exactly (see `even`). With weights: no processor
   is heavier than the mean and the heaviest copy, where 1 to 3 leave a choice (see `weighted`).
   Copies that somebody wants at a place (`pinned`) are there where 1 to 3 allow, and 4 is about the others.
5. The same input in any order gives the same plan, and a plan that is given back as the previous one stays as it is.

Best effort is movement: a copy stays unless a rule, the number of copies or evenness demands otherwise, and what must
move takes others along as little as a simple search finds (`even`). A new copy prefers a location where the state was
last, that of a lost copy or of a moved active, as long as that has room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from mooring.errors import InvalidGroupingError
from mooring.model import JobModel
from mooring.standby.copies import Copies
from mooring.standby.even import bring_home, even_out
from mooring.standby.lightest import Lightest
from mooring.standby.question import Question, pose
from mooring.standby.result import Standbys, free_replicas, in_names
from mooring.standby.weighted import even_out_weights

NO_PINS: Final[Mapping[str, Mapping[int, str]]] = MappingProxyType({})
MOST_REPLICAS: Final = 4
"""The greatest replication factor: an active and three copies."""


def assign_standbys(
    model: JobModel,
    factor: int,
    previous: JobModel | None = None,
    zones: Mapping[str, str] | None = None,
    weights: Mapping[str, int] | None = None,
    bound: Collection[str] | None = None,
    stopped: Collection[str] = (),
    pinned: Mapping[str, Mapping[int, str]] = NO_PINS,
) -> Standbys:
    """Add `factor - 1` copies of each active task to the containers of the job model; see the module for the promises.

    Actives stay where they are; standbys that the model has already are replaced. `previous` is the model in force,
    with its standbys. `zones` maps location to zone, `weights` maps task name to bytes of state, `bound` are the ids of
    processors that may hold copies (those with a living executor), None for all; the actives of `stopped` ones get no
    copies. `pinned` maps task name to replica to the location where somebody wants it.

    Raises `InvalidGroupingError` for a factor outside 1 to 4, a task that is active twice, and a negative weight.
    """
    if not 1 <= factor <= MOST_REPLICAS:
        raise InvalidGroupingError(f"the replication factor is {factor}; it must be from 1 to {MOST_REPLICAS}")
    question = pose(model, zones or {}, weights or {}, previous, bound, stopped, pinned)
    replicas = free_replicas(question, factor)
    copies = Copies(question, [min(len(free), question.locations_for(t)) for t, free in enumerate(replicas)])
    at_place = _processors_at(question)
    _pin(copies, at_place)
    _keep(copies)
    _complete(copies, at_place)
    if any((weights or {}).values()):
        even_out_weights(copies)
    else:
        even_out(copies)
        bring_home(copies)
    return in_names(model, copies, replicas, previous, factor, zones)


def _processors_at(question: Question) -> dict[int, list[int]]:
    at_place: dict[int, list[int]] = {}
    for p, place in enumerate(question.place):
        at_place.setdefault(place, []).append(p)
    return at_place


def _pin(copies: Copies, at_place: Mapping[int, list[int]]) -> None:
    """Put copies where somebody wants them: there on the processor that has it, else on the lightest."""
    for task, places in enumerate(copies.question.pinned):
        for place in places:
            p = min(at_place[place], key=lambda p: (not copies.is_at_home(task, p), copies.load[p], p))
            if copies.lacks(task) and copies.admits(task, p):
                copies.put(task, p)


def _keep(copies: Copies) -> None:
    """Let copies stay where they are; where there is a choice (too many of one task), the lightest processors keep.

    The replica that was pinned goes first: another one is where it was wanted.
    """
    homes = copies.question.homes
    has_choice = [len(found) > copies.room[task] for task, found in enumerate(homes)]
    for task in sorted(range(len(homes)), key=lambda task: (has_choice[task], task)):
        leaves = copies.question.leaves[task]
        for p in sorted(homes[task], key=lambda p: (p in leaves, copies.load[p], copies.question.busy[p], p)):
            if copies.lacks(task) and copies.admits(task, p):
                copies.put(task, p)


def _complete(copies: Copies, at_place: Mapping[int, list[int]]) -> None:
    """Place what is missing, heaviest first: where the state is if there is room, else on the lightest processor.

    Tasks of one location come one after the other, so their copies spread, and so does the work when it is lost.
    """
    question = copies.question
    total = sum(copies.room[t] * weight for t, weight in enumerate(question.weight))
    share = -(-total // max(1, len(question.processors)))
    lightest = Lightest(copies)
    for task in sorted(range(len(question.tasks)), key=lambda t: (-question.weight[t], question.active_place[t], t)):
        for place in question.warm[task]:
            if copies.lacks(task) and place in at_place:
                p = min(at_place[place], key=lambda p: (copies.load[p], p))
                if copies.load[p] + question.weight[task] <= share and copies.admits(task, p):
                    lightest.put(task, p)
        while copies.lacks(task):
            lightest.place(task)
