"""Reads what a reader is to type from the code blocks of the pages: README.md, CONTRIBUTING.md and all below docs/.

A block without a language has commands. A block of `text` may have lines of a configuration, or one command behind `$ `
with what is typed into it. A block of `python` is one snippet.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

__all__ = ["PAGES", "ROOT", "Typed", "name_of", "typed_in"]

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^ *```(\w*)$")


@dataclass(frozen=True)
class Typed:
    """One command, snippet or configuration of a page.

    `text` is as on the page, with the lines that a backslash continues joined. `block` is the line of the block's
    beginning: commands of one block follow from each other. `given` is what is typed into the command once it runs.
    """

    page: str
    line: int
    block: int
    kind: Literal["command", "python", "conf"]
    text: str
    given: str = ""

    @property
    def words(self) -> list[str]:
        """The words of a command, without its comment."""
        return shlex.split(self.text, comments=True)


def name_of(page: Path) -> str:
    """The path of a page below the repository's root."""
    return page.relative_to(ROOT).as_posix()


def typed_in(page: Path) -> list[Typed]:
    """Everything in the code blocks of a page that can be typed or written into a file, from its top to its end."""
    return [typed for block in _blocks(page) for typed in _typed(name_of(page), *block)]


def _blocks(page: Path) -> Iterator[tuple[int, str, list[str]]]:
    """The number of the first line of each fenced block, its language, its lines."""
    language, first, lines = None, 0, list[str]()
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence and language is None:
            language, first, lines = fence[1], number + 1, []
        elif fence:
            yield first, language or "", lines
            language = None
        else:
            lines.append(line)


def _typed(page: str, first: int, language: str, lines: list[str]) -> Iterator[Typed]:
    whole = "\n".join(lines)
    if language == "python":
        yield Typed(page, first, first, "python", whole)
    elif language == "text" and lines[0].startswith("$ "):
        yield Typed(page, first, first, "command", lines[0].removeprefix("$ "), "\n".join(lines[1:]))
    elif language == "text" and all(re.match(r"spark\.[\w.]+ +\S", line) for line in lines):
        yield Typed(page, first, first, "conf", whole)
    elif language == "":
        begin = 0
        for number, line in enumerate(lines):
            if not line.endswith("\\"):
                text = " ".join(part.strip().removesuffix("\\").strip() for part in lines[begin : number + 1])
                if text:
                    yield Typed(page, first + begin, first, "command", text)
                begin = number + 1
