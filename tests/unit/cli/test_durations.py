"""Durations on the command line name their unit."""

from __future__ import annotations

import pytest

from mooring.cli.commands import parser_of
from mooring.cli.durations import duration
from mooring.cli.exits import BadUsage
from mooring.cli.main import COMMANDS

TIMEOUT = duration("--timeout", "10m")


@pytest.mark.parametrize(("text", "milliseconds"), [("5s", 5_000), ("250ms", 250), ("2m", 120_000), ("0s", 0)])
def test_a_duration_is_read_as_milliseconds(text: str, milliseconds: int) -> None:
    assert TIMEOUT(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("5", "5s"),
        (" 90 ", "90s"),
        ("120", "2m"),
        ("1.5", "1500ms"),
        ("1.5h", "90m"),
        ("10 sec", "10s"),
        ("soon", "10m"),
        ("", "10m"),
        ("9" * 40, "10m"),
    ],
)
def test_a_text_without_a_unit_is_refused_with_the_nearest_that_is_valid(text: str, near: str) -> None:
    with pytest.raises(BadUsage) as refused:
        TIMEOUT(text)
    said = str(refused.value)
    assert said.startswith(f"--timeout {text}: expected a duration with its unit, such as 10m; nearest: ")
    nearest = said.rpartition("nearest: ")[2]
    assert TIMEOUT(nearest) == TIMEOUT(near)


def test_one_that_is_too_short_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"--watch 1ms: .* at least 100ms; nearest: 100ms"):
        duration("--watch", "2s", least_ms=100)("1ms")


def test_every_option_that_takes_a_time_refuses_a_bare_number() -> None:
    timed = [
        action
        for parser in parser_of(COMMANDS).commands.values()
        for action in parser._actions
        if action.metavar == "TIME"
    ]
    assert len(timed) >= 8
    for action in timed:
        assert callable(action.type)
        with pytest.raises(BadUsage, match=f"{action.option_strings[0]} 5: .*; nearest: 5s"):
            action.type("5")
