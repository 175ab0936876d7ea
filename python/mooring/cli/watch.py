"""A text that is drawn again and again, until Ctrl-C: for `mooring status --watch`."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from mooring.cli.output import cut
from mooring.errors import MooringError

_TO_THE_TOP: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_CLEAR_ALL: Final = "\x1b[H\x1b[2J"

Show = Callable[[str], None]


def watch(draw: Callable[[], str], every_seconds: float, sleep: Callable[[float], object] = time.sleep) -> None:
    """Show what `draw` returns, again and again, with so many seconds between, until Ctrl-C.

    On a terminal each text replaces the one before, by the package rich where it is installed. Elsewhere they follow
    each other, with an empty line between. A MooringError of the first `draw` is raised; a later one is shown, and
    `draw` is called again.
    """
    text = draw()
    with _screen() as show:
        try:
            while True:
                show(text)
                sleep(every_seconds)
                text = _drawn_again(draw)
        except KeyboardInterrupt:
            return


def _drawn_again(draw: Callable[[], str]) -> str:
    try:
        return draw()
    except MooringError as error:  # a store may be out of reach for a while
        return f"mooring: {error}"


@contextmanager
def _screen() -> Iterator[Show]:
    if not sys.stdout.isatty():
        yield _Successive().show
    elif _has_rich():
        with _rich() as show:
            yield show
    else:
        with _plain() as show:
            yield show


class _Successive:
    """Texts one after the other."""

    def __init__(self) -> None:
        self._is_first = True

    def show(self, text: str) -> None:
        print(text if self._is_first else f"\n{text}", flush=True)
        self._is_first = False


@contextmanager
def _plain() -> Iterator[Show]:
    """The screen of any terminal. The last text stays on it."""
    print(_CLEAR_ALL, end="")

    def show(text: str) -> None:
        lines = (f"{line}{_CLEAR_LINE}\n" for line in _fitting(text))
        print(_TO_THE_TOP + "".join(lines) + _CLEAR_BELOW, end="", flush=True)

    yield show


@contextmanager
def _rich() -> Iterator[Show]:
    """A screen of its own, which does not flicker. The last text stays when that is closed."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    last = ""
    console = Console()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:

            def show(text: str) -> None:
                nonlocal last
                last = text
                live.update(Text("\n".join(_fitting(text)), no_wrap=True), refresh=True)

            yield show
    finally:
        print(last, flush=True)


def _has_rich() -> bool:
    try:
        import rich.live  # noqa: F401
    except ImportError:
        return False
    return True


def _fitting(text: str) -> list[str]:
    """The lines of a text, as many and as much of each as the terminal has room for."""
    size = shutil.get_terminal_size()
    lines = text.splitlines()
    room = max(2, size.lines - 1)
    if len(lines) > room:
        more = len(lines) - room + 1
        lines = [*lines[: room - 1], f"… and {more} lines more: make the terminal higher, or leave --watch away"]
    return [cut(line, size.columns) for line in lines]
