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


def on_terminal(monkeypatch, columns):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))


def test_the_widest_column_is_cut_until_the_table_fits_the_terminal(monkeypatch):
    on_terminal(monkeypatch, 30)
    shown = table(("task", "checkpoint"), [("clicks/3", "file:/a/long/place/of/a/checkpoint"), ("b", "short")])
    assert shown.splitlines() == [
        "task      checkpoint",
        "clicks/3  file:/a/long/place/…",
        "b         short",
    ]
    assert max(map(len, shown.splitlines())) == 30


def test_a_table_is_whole_where_it_fits_and_where_there_is_no_terminal(monkeypatch):
    rows = [("x" * 300, "y")]
    monkeypatch.setenv("COLUMNS", "30")
    assert "x" * 300 in table(("a", "b"), rows)
    on_terminal(monkeypatch, 400)
    assert "x" * 300 in table(("a", "b"), rows)


def test_columns_of_a_terminal_that_is_too_narrow_keep_eight_characters(monkeypatch):
    on_terminal(monkeypatch, 5)
    assert table(("a", "b"), [("x" * 20, "y" * 20)]).splitlines()[1] == "xxxxxxx…  yyyyyyy…"


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


def test_elsewhere_each_change_is_a_line_of_its_own_at_once(capsys):
    line = ProgressLine(lambda: 0.0)
    for text in ("1 of 3", "1 of 3", "2 of 3"):
        line.show_change(text)
    assert capsys.readouterr().out.split() == ["1", "of", "3", "2", "of", "3"]


def test_a_line_that_is_written_over_is_no_longer_than_the_terminal(monkeypatch, capsys):
    on_terminal(monkeypatch, 10)
    ProgressLine(lambda: 0.0).show("0123456789")
    assert capsys.readouterr().out == "\r01234567…"
