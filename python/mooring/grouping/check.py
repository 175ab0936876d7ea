"""Checks a job model against the promises of grouping, independently of the planner.

It shares no code with the planner, so that it finds the planner's mistakes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from mooring.errors import InvalidGroupingError
from mooring.grouping.check_standbys import check_standbys
from mooring.model import ANY_HOST, ContainerModel, JobModel, TaskMode, TaskModel, natural_order


def check_job_model(
    model: JobModel,
    queries: Mapping[str, Collection[TaskModel]],
    processor_locality: Mapping[str, str],
    task_locality: Mapping[str, str] | None = None,
    previous: JobModel | None = None,
    weights: Mapping[str, int] | None = None,
    most_processors: int | None = None,
    zones: Mapping[str, str] | None = None,
    factor: int | None = None,
    may_hold: Collection[str] | None = None,
    stopped: Collection[str] = (),
) -> None:
    """Raise `InvalidGroupingError` unless the job model lists every processor and keeps the promises for each query.

    The promises on movement are checked when `task_locality` is given; it may be empty. With `most_processors`, a query
    must use that many processors, or all if there are fewer. Which processors have one task more than
    others depends on the order in which queries were planned, and is not checked here.

    `check_standbys` checks the standbys; it describes `zones`, `factor`, `may_hold` and `stopped`.
    """
    if set(model.containers) != set(processor_locality):
        odd = min(set(model.containers) ^ set(processor_locality), key=natural_order)
        raise InvalidGroupingError(
            f'processor "{odd}" is '
            + ("not in the job model" if odd in processor_locality else "in the job model, but gone")
        )
    query_of = {task.task_name: query for query, tasks in queries.items() for task in tasks}
    parts: dict[str, list[ContainerModel]] = {query: [] for query in queries}
    for container in model.containers.values():
        _check_location(container, processor_locality)
        split: dict[str, list[TaskModel]] = {}
        for name, task in container.tasks.items():
            if task.task_mode is TaskMode.STANDBY:
                continue
            if name not in query_of:
                raise InvalidGroupingError(f'task "{name}" on processor "{container.processor_id}" belongs to no query')
            split.setdefault(query_of[name], []).append(task)
        for query, tasks in split.items():
            parts[query].append(ContainerModel.of(container.processor_id, tasks, container.location_id))
    for query, given in queries.items():
        try:
            used = _used(parts[query], given, processor_locality, most_processors)
            check_grouping(parts[query], given, used, task_locality, previous, weights)
        except InvalidGroupingError as e:
            raise InvalidGroupingError(f'query "{query}": {e}') from e
    given_tasks = [task for tasks in queries.values() for task in tasks]
    check_standbys(model, given_tasks, zones, factor, weights, may_hold, stopped)


def check_grouping(
    containers: Iterable[ContainerModel],
    task_models: Collection[TaskModel],
    processor_locality: Mapping[str, str],
    task_locality: Mapping[str, str] | None = None,
    previous: JobModel | None = None,
    weights: Mapping[str, int] | None = None,
    load: Mapping[str, int] | None = None,
) -> None:
    """Raise `InvalidGroupingError` unless the grouping of one query keeps its promises; the message names the promise.

    Always checked: each task is there once, on a living processor; all processors that can be used are used; sizes or
    weights are even. With `task_locality`: the fewest tasks move, and a moved task is at its last location if a simple
    exchange could bring it there. With `load` too: the processors that have one task more than others are those with
    the least load. With `weights` and more tasks than processors the planner does not promise the last three, so they
    are not checked.
    """
    with _promise("each task exactly once, on a living processor"):
        owner = _check_each_task_once(containers, task_models, processor_locality)
    if len(owner) > len(processor_locality) and any((weights or {}).get(name) for name in owner):
        with _promise("even weights"):
            _check_weights(owner, processor_locality, weights or {})
        return
    sizes = Counter(dict.fromkeys(processor_locality, 0))
    sizes.update(owner.values())
    with _promise("even sizes"):
        _check_sizes(sizes)
    if task_locality is not None:
        now_at = {name: processor_locality[processor] for name, processor in owner.items()}
        with _promise("fewest moves"):
            movers = _check_fewest_moves(owner, sizes, previous)
        displaced = _displaced(movers, now_at, task_locality, previous, set(processor_locality.values()))
        with _promise("last location before any"):
            _check_exchanges(displaced, owner, sizes, processor_locality)
        if load is not None:
            with _promise("remainders where the load is least"):
                _check_remainders(displaced, owner, sizes, load)


@contextmanager
def _promise(name: str) -> Iterator[None]:
    """Add the name of the broken promise to an error."""
    try:
        yield
    except InvalidGroupingError as e:
        raise InvalidGroupingError(f"{e} (the promise: {name})") from e


def _used(
    containers: Iterable[ContainerModel],
    tasks: Collection[TaskModel],
    processor_locality: Mapping[str, str],
    most: int | None,
) -> Mapping[str, str]:
    """The processors to check: all, or those that the query uses when it may use `most`."""
    if most is None:
        return processor_locality
    used = {held.processor_id for held in containers if held.tasks}
    expected = min(most, len(tasks), len(processor_locality))
    if len(used) != expected:
        with _promise("as many processors as can be used"):
            raise InvalidGroupingError(f"it is on {len(used)} processors; it should be on {expected}")
    return {id: location for id, location in processor_locality.items() if id in used}


def _check_each_task_once(
    containers: Iterable[ContainerModel], task_models: Collection[TaskModel], processor_locality: Mapping[str, str]
) -> dict[str, str]:
    expected = {task.task_name: task for task in task_models}
    owner: dict[str, str] = {}
    seen: set[str] = set()
    for container in containers:
        processor = container.processor_id
        if processor in seen:
            raise InvalidGroupingError(f'processor "{processor}" is listed twice')
        seen.add(processor)
        _check_location(container, processor_locality)
        for name, task in container.tasks.items():
            if name in owner:
                raise InvalidGroupingError(f'task "{name}" is on the processors "{owner[name]}" and "{processor}"')
            if expected.get(name) != task:
                raise InvalidGroupingError(f'task "{name}" on processor "{processor}" is not one that was given')
            owner[name] = processor
    for name in expected:
        if name not in owner:
            raise InvalidGroupingError(f'task "{name}" is on no processor')
    return owner


def _check_location(container: ContainerModel, processor_locality: Mapping[str, str]) -> None:
    if container.processor_id not in processor_locality:
        raise InvalidGroupingError(f'processor "{container.processor_id}" is in the plan, but gone')
    location = processor_locality[container.processor_id]
    if (container.location_id or ANY_HOST) != (location or ANY_HOST):
        raise InvalidGroupingError(
            f'processor "{container.processor_id}" is at "{location}", not at "{container.location_id}"'
        )


def _check_weights(owner: Mapping[str, str], processors: Collection[str], weights: Mapping[str, int]) -> None:
    known = [weights[name] for name in owner if name in weights]
    mean_of_known = sum(known) // len(known)
    weight = {name: weights.get(name, mean_of_known) for name in owner}
    sums: Counter[str] = Counter()
    for name, processor in owner.items():
        sums[processor] += weight[name]
    idle = set(processors) - set(sums)
    if idle:
        raise InvalidGroupingError(
            f'processor "{min(idle, key=natural_order)}" has no task, though there are tasks enough'
        )
    processor = max(sums, key=lambda p: (sums[p], natural_order(p)))
    most = max(weight.values())
    if sums[processor] * len(processors) > sum(weight.values()) + most * len(processors):
        mean = sum(weight.values()) / len(processors)
        raise InvalidGroupingError(
            f'processor "{processor}" weighs {sums[processor]}; the mean is {mean:.0f}, the heaviest task {most}'
        )


def _check_sizes(sizes: Mapping[str, int]) -> None:
    tasks = sum(sizes.values())
    least, most = tasks // len(sizes), -(-tasks // len(sizes))
    for processor, size in sizes.items():
        if not least <= size <= most:
            raise InvalidGroupingError(
                f'processor "{processor}" has {size} of {tasks} tasks; even on {len(sizes)} is {least} to {most}'
            )


def _check_fewest_moves(owner: Mapping[str, str], sizes: Mapping[str, int], previous: JobModel | None) -> list[str]:
    """The tasks that moved, after a check that no more moved than necessary."""
    held: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    movers = set(owner)
    for container in previous.containers.values() if previous else ():
        if container.processor_id in sizes:
            here = [name for name in container.tasks if name in owner]
            held[container.processor_id] = len(here)
            kept[container.processor_id] = sum(owner[name] == container.processor_id for name in here)
            movers.difference_update(name for name in here if owner[name] == container.processor_id)
    for processor in held:
        could = min(held[processor], sizes[processor])
        if kept[processor] < could:
            raise InvalidGroupingError(
                f'processor "{processor}" kept {kept[processor]} of its tasks; it could have kept {could}'
            )
    least = len(owner) // len(sizes)
    shrunk = [processor for processor in held if held[processor] > least == sizes[processor]]
    grown = [processor for processor in sizes if sizes[processor] > least >= held[processor]]
    if shrunk and grown:
        raise InvalidGroupingError(
            f'processor "{shrunk[0]}" gave a task up so that "{grown[0]}" could have one more than it needs'
        )
    return sorted(movers, key=natural_order)


def _displaced(
    movers: Collection[str],
    now_at: Mapping[str, str],
    task_locality: Mapping[str, str],
    previous: JobModel | None,
    locations: Collection[str],
) -> dict[str, str | None]:
    """The moved tasks that are not at their last location, with that location; None where no processor is there."""
    was_at: dict[str, str | None] = {
        name: container.location_id
        for container in (previous.containers.values() if previous else ())
        for name in container.tasks
    }
    displaced: dict[str, str | None] = {}
    for name in movers:
        last = task_locality.get(name, was_at.get(name))
        if last in ("", ANY_HOST) or last not in locations:
            displaced[name] = None
        elif last != now_at[name]:
            displaced[name] = last
    return displaced


def _check_exchanges(
    displaced: Mapping[str, str | None],
    owner: Mapping[str, str],
    sizes: Mapping[str, int],
    processor_locality: Mapping[str, str],
) -> None:
    """Check that neither a swap, nor a move to a smaller group, brings a moved task to its last location."""
    least = len(owner) // len(sizes)
    displaced_at = {processor_locality[owner[name]]: name for name in displaced}
    short_at = {processor_locality[processor]: processor for processor, size in sizes.items() if size == least}
    for name, last in displaced.items():
        if last in displaced_at:
            raise InvalidGroupingError(
                f'task "{name}" was at "{last}" and could be there in the place of "{displaced_at[last]}"'
            )
        if last in short_at and sizes[owner[name]] > least:
            raise InvalidGroupingError(
                f'task "{name}" was at "{last}" and could be there on processor "{short_at[last]}"'
            )


def _check_remainders(
    displaced: Collection[str], owner: Mapping[str, str], sizes: Mapping[str, int], load: Mapping[str, int]
) -> None:
    """Check that the larger groups of displaced tasks are on the processors with the least load, then smallest ids."""
    least = len(owner) // len(sizes)
    short = [processor for processor, size in sizes.items() if size == least]
    best = min(short, key=lambda processor: (load.get(processor, 0), natural_order(processor)), default=None)
    for name in displaced:
        taken = owner[name]
        if (
            best is not None
            and sizes[taken] > least
            and (load.get(best, 0), natural_order(best)) < (load.get(taken, 0), natural_order(taken))
        ):
            raise InvalidGroupingError(
                f'task "{name}" should be on processor "{best}" (load {load.get(best, 0)}), not on "{taken}"'
            )
