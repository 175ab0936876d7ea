"""The table of what may become of a request."""

from pathlib import Path

import pytest

from mooring.cli.main import main
from mooring.placement import StatusCode
from mooring.placement.lifecycle import TABLE, Happening, Phase, step

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "states.md"
CONTRACT = {
    (StatusCode.CREATED, StatusCode.BAD_REQUEST),
    (StatusCode.CREATED, StatusCode.ACCEPTED),
    (StatusCode.ACCEPTED, StatusCode.IN_PROGRESS),
    (StatusCode.IN_PROGRESS, StatusCode.SUCCEEDED),
    (StatusCode.IN_PROGRESS, StatusCode.FAILED),
}


def test_a_status_changes_as_the_contract_says() -> None:
    """But for one: a request that fails while it waits is shown as IN_PROGRESS first."""
    changes = {(row.phase.status, row.next.status) for row in TABLE if row.phase.status is not row.next.status}
    assert changes - {(StatusCode.ACCEPTED, StatusCode.FAILED)} == CONTRACT


def test_nothing_comes_after_a_final_status_and_everything_else_ends() -> None:
    assert not [row for row in TABLE if row.phase.status.is_final]
    ends = {phase for phase in Phase if phase.status.is_final}
    while more := {row.phase for row in TABLE if row.next in ends} - ends:
        ends |= more
    assert ends == set(Phase)


def test_every_phase_can_be_reached_and_every_happening_happens() -> None:
    reached = {Phase.CREATED}
    while more := {row.next for row in TABLE if row.phase in reached} - reached:
        reached |= more
    assert reached == set(Phase)
    assert {row.happening for row in TABLE} == set(Happening)


def test_a_row_says_one_thing() -> None:
    assert len({(row.phase, row.happening) for row in TABLE}) == len(TABLE)


def test_what_is_not_in_the_table_is_refused() -> None:
    assert step(Phase.WARMING_UP, Happening.WARM) is Phase.SWITCHING
    with pytest.raises(ValueError, match="done can not go on after: the copies there are warm"):
        step(Phase.DONE, Happening.WARM)


def test_the_page_has_the_table_that_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["states"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()]
    assert len(printed) == len(TABLE) + 1
    assert "\n".join(printed) in DOCS.read_text()
