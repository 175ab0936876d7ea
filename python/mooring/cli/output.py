"""How results are shown: aligned columns and numbers with units for people, one JSON text for programs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

UNLIMITED: Final = sys.maxsize
"""A width in characters that nothing reaches."""

_GAP: Final = "  "
_LEAST_WIDTH: Final = 8
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def print_json(value: Any) -> None:
    """One JSON text on standard output."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def table(heading: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None) -> str:
    """Columns as wide as they must be, within so many characters; None is shown as a dash.

    `width` is by default that of the terminal. Where standard output is no terminal, nothing is cut. The widest columns
    are cut first, and end with `…` then.
    """
    texts = [list(heading), *([("-" if cell is None else str(cell)) for cell in row] for row in rows)]
    needed = [max(len(row[column]) for row in texts) for column in range(len(heading))]
    widths = _fitted(needed, (terminal_width() if width is None else width) - len(_GAP) * (len(heading) - 1))
    return "\n".join(
        _GAP.join(cut(cell, width).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    )


def terminal_width() -> int:
    """The characters in a line of the terminal; without limit where standard output is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else UNLIMITED


def _fitted(widths: list[int], room: int) -> list[int]:
    """The widths of columns that fit into the room together, if they can: the widest give way, to 8 at the least."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > _LEAST_WIDTH:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def cut(text: str, width: int) -> str:
    """A text of so many characters at most, with `…` for its end where it is longer."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def size(count: int | None) -> str | None:
    """Bytes for people: `28.1 MB`. None stays None."""
    if count is None:
        return None
    amount, unit = float(count), 0
    while amount >= 999.95 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def counted(count: int, singular: str, plural: str = "") -> str:
    """`1 task`, `2 tasks`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


class ProgressLine:
    """Shows how far long work is: one line that is written over on a terminal, now and then a plain line elsewhere."""

    PLAIN_LINE_EVERY_SECONDS = 15.0

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a clock in seconds."""
        self._now = now
        self._on_terminal = sys.stdout.isatty()
        self._shown = 0
        self._plain_at = now()
        self._last_change = ""

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *failure: object) -> None:
        """Clear the line, so that the next output begins on a line of its own."""
        self._clear()

    def say(self, line: str) -> None:
        """Print a line that stays."""
        self._clear()
        print(line, flush=True)
        self._plain_at = self._now()

    def show(self, line: str) -> None:
        """Show a line that the next one replaces. Elsewhere than on a terminal most of them are left out."""
        if self._on_terminal:
            self._clear()
            line = cut(line, terminal_width() - 1)
            print(f"\r{line}", end="", flush=True)
            self._shown = len(line)
        elif self._now() - self._plain_at >= self.PLAIN_LINE_EVERY_SECONDS:
            self.say(f"          {line}")

    def show_change(self, line: str) -> None:
        """The same for a line that seldom changes: elsewhere each that differs from the last is printed at once."""
        if self._on_terminal:
            self.show(line)
        elif line != self._last_change:
            self._last_change = line
            self.say(f"          {line}")

    def _clear(self) -> None:
        if self._shown:
            print(f"\r{' ' * self._shown}\r", end="", flush=True)
            self._shown = 0
