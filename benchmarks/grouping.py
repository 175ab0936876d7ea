"""The time that the grouper takes, with as many tasks and processors as it promises. Stock Spark has no counterpart.

Each case is one that a running application meets, or one that is hard for the planner. It runs on one core.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from mooring.grouping import HostAwareGrouper
from mooring.model import JobModel, SystemStreamPartition, TaskModel, TaskName

SIZES = ((10_000, 1_000), (100_000, 10_000))
PROCESSORS_PER_HOST = 4
SEED = 20


@dataclass(frozen=True)
class Question:
    """The input of the grouper in one case."""

    tasks: frozenset[TaskModel]
    task_locality: Mapping[str, str]
    processor_locality: Mapping[str, str]
    previous: JobModel | None = None
    weights: Mapping[str, int] | None = None

    def answer(self) -> JobModel:
        """The grouper's plan."""
        grouper = HostAwareGrouper(self.weights)
        return JobModel.of(grouper.group(self.tasks, self.task_locality, self.processor_locality, self.previous))

    def settled(self) -> "Question":
        """The next input: the plan is in force, and each task ran where the plan has it."""
        plan = self.answer()
        seen: dict[str, str] = {
            name: held.location_id or "" for held in plan.containers.values() for name in held.tasks
        }
        return replace(self, previous=plan, task_locality=seen)


def run(quick: bool) -> dict[str, Any]:
    """Time every case five times, or once with `quick`."""
    rows = []
    for tasks, processors in SIZES:
        for weights in ("tasks", "bytes"):
            fresh = _fresh(tasks, processors, weighted=weights == "bytes")
            for case, make in CASES.items():
                seconds = _time(make(fresh), repeats=1 if quick else 5)
                rows.append(_row(tasks, processors, weights, case, seconds))
    return {"name": "grouping", "rows": rows}


def _fresh(tasks: int, processors: int, weighted: bool) -> Question:
    """A first start. The bytes are spread like sizes of state: a few partitions are much larger than the rest."""
    chance = random.Random(SEED)
    names = [TaskName(f"query/Partition {number}") for number in range(tasks)]
    models = (
        TaskModel(name, frozenset({SystemStreamPartition("spark", "query/0/default", number)}), number)
        for number, name in enumerate(names)
    )
    return Question(
        tasks=frozenset(models),
        task_locality={},
        processor_locality={str(number): f"host-{number // PROCESSORS_PER_HOST}" for number in range(processors)},
        weights={name: int(chance.lognormvariate(17, 1)) for name in names} if weighted else None,
    )


def _again(fresh: Question) -> Question:
    return fresh.settled()


def _restart_without_memory_of_processors(fresh: Question) -> Question:
    return replace(fresh.settled(), previous=None)


def _half_of_the_processors_gone(fresh: Question) -> Question:
    return replace(fresh.settled(), processor_locality=_every_second(fresh.processor_locality))


def _twice_the_processors(fresh: Question) -> Question:
    half = replace(fresh, processor_locality=_every_second(fresh.processor_locality))
    return replace(half.settled(), processor_locality=fresh.processor_locality)


def _all_tasks_at_one_location(fresh: Question) -> Question:
    return replace(fresh, task_locality={task.task_name: "host-0" for task in fresh.tasks})


def _scattered_localities(fresh: Question) -> Question:
    """Every processor is a host, half of them are new, and each task ran last on a random host."""
    hosts = {id: f"host-{id}" for id in fresh.processor_locality}
    chance, names = random.Random(SEED), sorted(task.task_name for task in fresh.tasks)
    half = replace(fresh, processor_locality=_every_second(hosts)).settled()
    last: dict[str, str] = {name: f"host-{chance.randrange(len(hosts))}" for name in names}
    return replace(half, processor_locality=hosts, task_locality=last)


CASES: dict[str, Callable[[Question], Question]] = {
    "first start": lambda fresh: fresh,
    "nothing changed": _again,
    "restart, localities only": _restart_without_memory_of_processors,
    "half of the processors gone": _half_of_the_processors_gone,
    "twice the processors": _twice_the_processors,
    "all tasks at one location": _all_tasks_at_one_location,
    "scattered localities": _scattered_localities,
}


def _every_second(processor_locality: Mapping[str, str]) -> dict[str, str]:
    return {id: location for id, location in processor_locality.items() if int(id) % 2}


def _time(question: Question, repeats: int) -> list[float]:
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        question.answer()
        seconds.append(time.perf_counter() - start)
    return seconds


def _row(tasks: int, processors: int, weights: str, case: str, seconds: list[float]) -> dict[str, Any]:
    return {
        "figure": "seconds",
        "unit": "s",
        "storage": None,
        "state-gb": None,
        "tasks": tasks,
        "processors": processors,
        "weights": weights,
        "case": case,
        "stock": None,
        "mooring": {
            "median": round(median(seconds), 4),
            "min": round(min(seconds), 4),
            "max": round(max(seconds), 4),
            "n": len(seconds),
        },
        "ratio": None,
    }
