"""A text that is drawn again and again: on a terminal with rich and without it, and elsewhere."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.cli.exits import CommandFailed
from mooring.cli.main import main
from mooring.cli.watch import watch
from tests.unit.cli import records


def until_interrupted(times: int) -> Callable[[float], None]:
    """A sleep that lets the text be drawn so often; then comes Ctrl-C."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == times:
            raise KeyboardInterrupt

    return sleep


def drawn(*texts: str) -> Callable[[], str]:
    """Each text once, in turn."""
    left = list(texts)
    return lambda: left.pop(0)


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 40, lines: int = 10) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("LINES", str(lines))
    monkeypatch.setenv("TERM", "xterm")


def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.live", None)


def test_elsewhere_than_on_a_terminal_texts_follow_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    watch(drawn("one", "two", "three"), 2.0, until_interrupted(3))
    assert capsys.readouterr().out == "one\n\ntwo\n\nthree\n"


def test_a_terminal_without_rich_is_written_over_from_its_top(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch)
    without_rich(monkeypatch)
    watch(drawn("one", "two"), 2.0, until_interrupted(2))
    home, clear_line, clear_below = "\x1b[H", "\x1b[K", "\x1b[J"
    first, second = (f"{home}{text}{clear_line}\n{clear_below}" for text in ("one", "two"))
    assert capsys.readouterr().out == f"{home}\x1b[2J{first}{second}"


def test_a_terminal_with_rich_gets_a_screen_of_its_own_and_keeps_the_last_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    on_terminal(monkeypatch)
    watch(drawn("one", "[two]"), 2.0, until_interrupted(2))
    shown = capsys.readouterr().out
    opened, closed = shown.index("\x1b[?1049h"), shown.index("\x1b[?1049l")
    assert opened < shown.index("one") < shown.index("[two]") < closed
    assert shown.endswith("[two]\n") and "\x1b[?25h" in shown, "the cursor is shown again"


def test_what_has_no_room_on_the_terminal_is_left_out_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch, columns=20, lines=4)
    without_rich(monkeypatch)
    watch(drawn("\n".join(["a line that is too long", *"bcdefg"])), 2.0, until_interrupted(1))
    shown = capsys.readouterr().out
    assert "a line that is too …\x1b" in shown and "b\x1b" in shown and "c\x1b" not in shown
    assert "… and 5 lines more:" in shown


def test_a_first_failure_ends_it_and_a_later_one_is_shown_until_it_is_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing() -> str:
        raise CommandFailed("there is no status in /nowhere")

    with pytest.raises(CommandFailed):
        watch(failing, 2.0, until_interrupted(1))
    turns = [lambda: "one", failing, lambda: "three"]
    watch(lambda: turns.pop(0)(), 2.0, until_interrupted(3))
    assert capsys.readouterr().out == "one\n\nmooring: there is no status in /nowhere\n\nthree\n"


def test_the_command_shows_the_status_anew_until_ctrl_c_and_ends_well(tmp_path: Path) -> None:
    place = records.write(tmp_path)
    command = [sys.executable, "-u", "-m", "mooring", "status", "--metadata", place, "--watch", "100ms"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stderr is not None
        shown = [line for _ in range(60) if "placement version" in (line := child.stdout.readline())]
        child.send_signal(signal.SIGINT)
        said = child.stderr.read()
        assert child.wait(30) == 0 and said == ""
    assert len(shown) >= 2


def test_on_a_real_terminal_the_status_is_drawn_over(tmp_path: Path) -> None:
    place = records.write(tmp_path)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mooring", "status", "--metadata", place, "--watch", "100ms"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as child:
        os.close(theirs)
        shown = b""
        deadline = time.monotonic() + 30
        while shown.count(b"placement version") < 3 and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                shown += os.read(ours, 65536)
        child.send_signal(signal.SIGINT)
        while select.select([ours], [], [], 5)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the child has closed its end
                break
        assert child.wait(30) == 0
    os.close(ours)
    assert shown.count(b"placement version") >= 3 and b"\x1b[" in shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--watch", "5"], "--watch 5: expected a duration with its unit, such as 2s; nearest: 5s"),
        (["--watch", "1ms"], "nearest: 100ms"),
        (["--watch", "2s", "--json"], "argument --json: not allowed with argument --watch"),
    ],
)
def test_what_can_not_be_watched_is_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "--metadata", records.write(tmp_path), *options]) == 2
    assert said in capsys.readouterr().err
