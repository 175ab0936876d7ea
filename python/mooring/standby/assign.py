"""Standby assignment: which processors hold the copies of which tasks.

The rules, each among plans that keep all rules before it:

1. No copy is at the location of its active, and no two copies of a task are at one location. A processor without a
   location, or that may not hold copies, holds none.
2. Each task gets all its copies, or as many as there are other locations. Missing copies are reported. Tasks whose
   standbys are stopped get no copies, and nothing is reported for them.
3. The active and the copies of a task are in as many zones as possible. A copy shares a zone only when the task has
   more copies than there are other zones; such copies are reported. So zones of unequal size get unequal load, because
   the copies must survive the loss of a zone. All locations without a zone count as one zone.
4. Pinned copies are where the operator wants them.
5. Without weights, the numbers of the other copies are exactly as even as rules 1 to 4 allow (see `even`). With
   weights, no processor is heavier than the mean plus the heaviest copy, where rules 1 to 4 leave a choice (see
   `weighted`).
6. The same input in any order gives the same plan. A plan that is given back as the previous plan does not change.

Few moves are best effort: a copy moves only for these rules, and a simple search keeps the further moves few (see
`even`). A new copy prefers a location where its state was last, while that location has room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from mooring.errors import InvalidGroupingError
from mooring.model import JobModel
from mooring.standby.copy_plan import CopyPlan
from mooring.standby.even import bring_home, even_out
from mooring.standby.lightest import Lightest
from mooring.standby.problem import Problem, problem_of
from mooring.standby.result import JobModelWithStandbys, free_replicas, standbys_from
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
    may_hold: Collection[str] | None = None,
    stopped: Collection[str] = (),
    pinned: Mapping[str, Mapping[int, str]] = NO_PINS,
) -> JobModelWithStandbys:
    """The job model with `factor - 1` copies of each active task, by the rules of this module.

    Actives stay where they are. Standbys that `model` already has are replaced. The other arguments are:

    - `previous`: the job model before this one, with its standbys.
    - `zones`: location to zone.
    - `weights`: task name to bytes of state.
    - `may_hold`: the ids of processors that may hold copies: with an executor, at a host that is not drained. None for
      all.
    - `stopped`: the ids of processors whose active tasks get no copies.
    - `pinned`: task name to replica to the location where an operator wants that replica.

    Raises `InvalidGroupingError` for a factor outside 1 to 4, a task that is active twice, and a negative weight.
    """
    if not 1 <= factor <= MOST_REPLICAS:
        raise InvalidGroupingError(f"the replication factor is {factor}; it must be from 1 to {MOST_REPLICAS}")
    problem = problem_of(model, zones or {}, weights or {}, previous, may_hold, stopped, pinned)
    replicas = free_replicas(problem, factor)
    plan = CopyPlan(problem, [min(len(free), problem.locations_for(t)) for t, free in enumerate(replicas)])
    processors_at = _processors_by_location(problem)
    _place_pinned(plan, processors_at)
    _keep_previous(plan)
    _place_missing(plan, processors_at)
    if any((weights or {}).values()):
        even_out_weights(plan)
    else:
        even_out(plan)
        bring_home(plan)
    return standbys_from(model, plan, replicas, previous, factor, zones)


def _processors_by_location(problem: Problem) -> dict[int, list[int]]:
    """Location to the processors there that may hold copies."""
    processors_at: dict[int, list[int]] = {}
    for p, location in enumerate(problem.location):
        processors_at.setdefault(location, []).append(p)
    return processors_at


def _place_pinned(plan: CopyPlan, processors_at: Mapping[int, list[int]]) -> None:
    """Place pinned copies at their locations: on the processor that has the copy, else on the lightest one there."""
    for task, pinned in enumerate(plan.problem.pinned):
        for location in pinned:
            p = min(processors_at[location], key=lambda p: (not plan.is_at_home(task, p), plan.load[p], p))
            if plan.lacks(task) and plan.admits(task, p):
                plan.put(task, p)


def _keep_previous(plan: CopyPlan) -> None:
    """Leave copies on the processors that had them.

    A task that had more copies than it gets now keeps those on the lightest processors. A replica that is pinned
    elsewhere is kept last, because a copy at the pinned location has taken its place.
    """
    homes = plan.problem.homes
    has_too_many = [len(found) > plan.wanted[task] for task, found in enumerate(homes)]
    for task in sorted(range(len(homes)), key=lambda task: (has_too_many[task], task)):
        leaves = plan.problem.leaves[task]
        for p in sorted(homes[task], key=lambda p: (p in leaves, plan.load[p], plan.problem.busy[p], p)):
            if plan.lacks(task) and plan.admits(task, p):
                plan.put(task, p)


def _place_missing(plan: CopyPlan, processors_at: Mapping[int, list[int]]) -> None:
    """Place all missing copies, heaviest first: where their state is if there is room, else on the lightest processor.

    There is room up to an equal share of the weight of all copies. Tasks of one location come one after the other, so
    their copies spread over many processors, and so does the failover when that location is lost.
    """
    problem = plan.problem
    total = sum(plan.wanted[t] * weight for t, weight in enumerate(problem.weight))
    share = -(-total // max(1, len(problem.processors)))
    lightest = Lightest(plan)
    for task in sorted(range(len(problem.tasks)), key=lambda t: (-problem.weight[t], problem.active_location[t], t)):
        for location in problem.warm[task]:
            if plan.lacks(task) and location in processors_at:
                p = min(processors_at[location], key=lambda p: (plan.load[p], p))
                if plan.load[p] + problem.weight[task] <= share and plan.admits(task, p):
                    lightest.put(task, p)
        while plan.lacks(task):
            lightest.put_anywhere(task)
