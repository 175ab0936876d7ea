"""How results look."""

import sys

import pytest

from mooring.cli.output import ProgressLine, counted, size, table


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
    ],
)
def test_sizes_are_readable(count, text):
    assert size(count) == text


def test_columns_are_aligned_and_nothing_is_a_dash():
    assert table(("a", "long"), [("xyz", None), (1, 2)]) == "a    long\nxyz  -\n1    2"


def test_plurals():
    assert counted(1, "task") == "1 task" and counted(2, "directory", "directories") == "2 directories"


def test_a_terminal_sees_one_line_written_over(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    line = ProgressLine(lambda: 0.0)
    line.show("half")
    line.show("all")
    line.say("done")
    assert capsys.readouterr().out == "\rhalf\r    \r\rall\r   \rdone\n"


def test_elsewhere_plain_lines_come_now_and_then(capsys):
    clock = iter([0, 5, 14, 15, 15, 29, 31, 31])
    line = ProgressLine(lambda: next(clock))
    for number in range(5):
        line.show(f"at {number}")
    assert capsys.readouterr().out.split() == ["at", "2", "at", "4"]
