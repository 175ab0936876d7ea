"""The names of tasks and locations, and the order in which names and ids are listed."""

import re
from typing import Final

_NUMBER = re.compile("[0-9]+")


class TaskName(str):
    """The name of a task: one state partition of one query, such as `clicks/Partition 3`.

    It is a subclass of `str`, so it can be looked up in mappings with text keys. No code takes the query or the
    partition from the name alone: `agent.requests.move.tasks_of` splits names, and compares what it finds with the
    query's own names.
    """

    __slots__ = ()


class LocationId(str):
    """A location, such as `10.0.0.7` or `slice-4/2`. Processors with equal location ids share a disk.

    It is a subclass of `str`. Two values name no location: `ANY_HOST` and the empty text (see `named_location`).
    """

    __slots__ = ()


def standby_name(task_name: str, replica: int) -> TaskName:
    """The name of a standby of a task; replicas count from 0. Code never parses it."""
    return TaskName(f"Standby-{task_name}-{replica}")


ANY_HOST: Final = LocationId("ANY_HOST")
"""The location that means: no preference."""


def named_location(location: str | None) -> LocationId | None:
    """The location, or None where it means no preference: None, empty, or `ANY_HOST`."""
    return LocationId(location) if location and location != ANY_HOST else None


def natural_order(name: str) -> tuple[str, str]:
    """The sort key of processor ids and task names. Numbers in them compare as numbers, so "2" comes before "10".

    The order is total: two different names never have equal keys, as the second part of the key is the name. In the
    first part each number is replaced by its length and its digits, which compare as the numbers do.
    """
    return _NUMBER.sub(_length_and_digits, name), name


def _length_and_digits(number: re.Match[str]) -> str:
    digits = number[0].lstrip("0")
    return f"{len(digits):08}{digits}"
