from __future__ import annotations

import pytest

from mooring.agent.checkpoints.table_damage import DamageCounts

TABLE = "/c/_mooring/state_versions"
DAMAGE = "JsonEOFException: Unexpected end-of-input"


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def judged(*failures: tuple[float, str]) -> list[bool]:
    """What is said of each failure; each is given with its second."""
    seconds = Seconds()
    counts = DamageCounts(seconds)
    found = []
    for at, said in failures:
        seconds.now = 1000.0 + at
        found.append(counts.is_damaged(TABLE, said))
    return found


def test_three_failures_in_a_minute_or_more_are_damage() -> None:
    assert judged((0, DAMAGE), (30, DAMAGE), (60, DAMAGE)) == [False, False, True]
    assert judged((0, DAMAGE), (60, DAMAGE)) == [False, False]


def test_many_failures_within_a_minute_are_no_damage_yet() -> None:
    """A pass comes at each end of a query too, and each may fail while the storage is away for a moment."""
    assert judged(*((second, DAMAGE) for second in range(60))) == [False] * 60


def test_another_failure_ends_the_row() -> None:
    refused = "AccessDeniedException: Forbidden"
    assert judged((0, refused), (30, refused), (70, DAMAGE)) == [False] * 3
    assert judged((0, DAMAGE), (30, DAMAGE), (50, refused), (70, DAMAGE), (140, DAMAGE)) == [False] * 5


def test_a_table_that_could_be_read_begins_anew() -> None:
    seconds = Seconds()
    counts = DamageCounts(seconds)
    for _ in range(2):
        assert not counts.is_damaged(TABLE, DAMAGE)
    counts.forget(TABLE)
    seconds.now += 100
    assert not counts.is_damaged(TABLE, DAMAGE)


@pytest.mark.parametrize(
    "error",
    [
        "DELTA_INVALID_LOGSTORE_CONF",
        "DELTA_INVALID_PARTITION_COLUMN",
        "DELTA_LOG_ALREADY_EXISTS",
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        "DELTA_VERSION_INVALID",
    ],
)
def test_an_error_of_delta_that_is_about_something_else_is_no_damage(error: str) -> None:
    assert judged(*((at, f"DeltaException: [{error}] text") for at in (0, 40, 80))) == [False] * 3


@pytest.mark.parametrize(
    "error",
    [
        "DELTA_FILE_NOT_FOUND_DETAILED",
        "DELTA_LOG_FILE_NOT_FOUND",
        "DELTA_MISSING_PART_FILES",
        "DELTA_STATE_RECOVER_ERROR",
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
    ],
)
def test_an_error_of_delta_that_its_log_is_damaged_is_damage(error: str) -> None:
    assert judged(*((at, f"DeltaException: [{error}] text") for at in (0, 40, 80)))[-1]
