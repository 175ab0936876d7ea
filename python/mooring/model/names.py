"""What tasks and locations are called, and the order in which names and ids are listed."""

import re
from typing import Final

_NUMBER = re.compile("[0-9]+")


class TaskName(str):
    """The name of a task: one state partition of one query, such as `clicks/Partition 3`.

    A `str` of its own type, so it can be looked up in any mapping that is keyed by plain text. Nothing is ever parsed
    from it.
    """

    __slots__ = ()


class LocationId(str):
    """Where local stores can be shared, such as `10.0.0.7` or `slice-4/2`: processors with equal ids see the same disk.

    A `str` of its own type. Two values of it name no place: `ANY_HOST` and the empty text (see `named_place`).
    """

    __slots__ = ()


def standby_name(task_name: str, replica: int) -> TaskName:
    """What the standby of a task is called; replicas count from 0. Nothing is ever parsed from it."""
    return TaskName(f"Standby-{task_name}-{replica}")


ANY_HOST: Final = LocationId("ANY_HOST")
"""The location that means: no preference."""


def named_place(location: str | None) -> LocationId | None:
    """The location when it names a place, None when it means no preference: None, empty, or `ANY_HOST`."""
    return LocationId(location) if location and location != ANY_HOST else None


def natural_order(name: str) -> tuple[str, str]:
    """The sort key of processor ids and task names: numbers inside compare as numbers, so "2" comes before "10".

    A total order: two different names never have equal keys ("1" and "01" differ in the second part). In the first part
    each number stands as its length and its digits, which compare as the number does, whatever its size.
    """
    return _NUMBER.sub(_length_and_digits, name), name


def _length_and_digits(number: re.Match[str]) -> str:
    digits = number[0].lstrip("0")
    return f"{len(digits):08}{digits}"
