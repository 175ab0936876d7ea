"""The pages of the site: what they say of commands, log lines and metrics is what the code has."""

import re
import shlex
from pathlib import Path

import pytest

from mooring.cli.commands import parse
from mooring.cli.exits import BadUsage
from mooring.cli.main import COMMANDS
from scripts import reference_pages

ROOT = Path(__file__).parents[3]
LONGEST_LINE, LONGEST_ROW = 165, 420
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$|^((?: {4}.*\n)+)", re.DOTALL | re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def commands_in(page):
    """The command lines of a page's code blocks that call `mooring`, without what is a comment."""
    blocks = [found[1] or found[2] for found in _BLOCK.finditer(page.read_text())]
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    lines = [re.sub(r"^\$ ", "", line) for line in lines]
    return [line for line in lines if re.match(r"mooring [a-z-]", line) and "…" not in line]


@pytest.mark.parametrize(
    ("page", "made"),
    reference_pages.all_pages().items(),
    ids=lambda value: name_of(value)[-20:] if isinstance(value, Path) else "",
)
def test_a_reference_page_is_as_the_code_is(page, made):
    """`make reference` writes them anew."""
    assert (ROOT / page).read_text() == made


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_on_a_page_exists(page):
    for line in commands_in(page):
        try:
            parse(shlex.split(line, comments=True)[1:], COMMANDS)
        except BadUsage as error:
            pytest.fail(f"{line}: {error}")


def test_commands_are_found_on_pages():
    assert len([line for page in PAGES for line in commands_in(page)]) > 40


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_short(page):
    """A row of a table is one line whatever is in it; what is made from the code is as long as it is there."""
    made = page.name in reference_pages.whole_pages()
    lines = re.sub(r"<!-- (made|table): .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL).splitlines()
    too_long = [line for line in lines if len(line) > (LONGEST_ROW if line.startswith("|") else LONGEST_LINE)]
    assert made or not too_long


def test_every_documented_log_line_is_one_that_the_code_can_say():
    """A line on the page is cut at `…`; each of its pieces is in a text of the code."""
    page = (DOCS / "reference" / "log-lines.md").read_text().partition("<!-- made:")[0]
    documented = re.findall(r"^\| (?:driver|executor|any) \| (.*?) \|", page, re.MULTILINE)
    texts = reference_pages.all_texts()
    pieces = [
        piece.strip()
        for row in documented
        for line in re.findall(r"`(.*?)`", row)
        for piece in line.split("…")
        if len(piece.strip()) > 6
    ]
    assert len(pieces) > 40
    assert not [piece for piece in pieces if piece not in texts]


def test_every_setting_on_a_page_exists():
    keys = [re.escape(setting.key) + (r"[\w.]*" if setting.is_prefix else "") for setting in reference_pages.SETTINGS]
    known = re.compile("|".join(keys))
    named = {
        key.rstrip(".")
        for page in PAGES
        for key in re.findall(r"spark\.mooring\.[a-z.]*[a-z](?![a-z.]*…)", page.read_text())
    }
    assert not [key for key in sorted(named) if not known.fullmatch(key)]


@pytest.mark.parametrize("page", [page for page in PAGES if "internals" in name_of(page)], ids=name_of)
def test_every_file_that_internals_name_exists(page):
    named = re.findall(r"`([\w/]+/\w+\.py|\w+\.scala)`", page.read_text())
    scala = {file.name for file in reference_pages.SCALA.parent.rglob("*.scala")}
    python = {file.relative_to(reference_pages.PYTHON).as_posix() for file in reference_pages.PYTHON.rglob("*.py")}
    assert not [name for name in named if name not in scala | python]
