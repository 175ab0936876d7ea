"""Requests to applications that have ended, or are silent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mooring.cli.main import main
from tests.unit.cli.places import (
    ASKING,
    ended,
    open_directory,
    refused,
    silent,
)


@pytest.fixture
def room() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory


@pytest.fixture(autouse=True)
def awaits_no_other_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.cli.application.life._NEXT_STATUS_WITHIN_SECONDS", 0.0)


@pytest.mark.parametrize("command", ASKING)
@pytest.mark.parametrize(
    ("make", "words"), [(ended, ("ENDED at", "UTC")), (silent, ("SILENT: last heard of at", "--deployment-id"))]
)
def test_an_application_that_is_gone_is_asked_for_nothing(
    command: str, make: Callable[[Path], str], words: Sequence[str], room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make(room)
    arguments = [command, *ASKING[command], "--metadata", place]
    refused(arguments, "app-20261121-0001", 1, (*words, "nobody would act on this"), room, capsys)


@pytest.mark.parametrize("command", ASKING)
def test_a_silent_application_can_be_named_in_a_request_and_an_ended_one_can_not(command: str, room: Path) -> None:
    more = [*ASKING[command], "--deployment-id", "app-20261121-0001"]
    assert main([command, *more, "--metadata", silent(room)]) == 0
    assert main([command, *more, "--metadata", ended(room)]) == 1


def test_a_status_of_an_ended_application_is_shown_with_the_time(
    room: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--metadata", ended(room)]) == 0
    assert "ENDED at 20" in capsys.readouterr().out
    assert main(["status", "--json", "--metadata", silent(room)]) == 0
    assert json.loads(capsys.readouterr().out)["life"] == "silent"
