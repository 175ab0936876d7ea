"""The pages of the site: what they say of commands, log lines and metrics is what the code has."""

import functools
import re
from itertools import takewhile

import pytest

from mooring.cli.commands import parse, parser_of
from mooring.cli.exits import BadUsage
from mooring.cli.machine.conf import render
from mooring.cli.main import COMMANDS
from mooring.model import events
from scripts import log_lines, reference_pages, run_pages
from scripts.pages import PAGES, ROOT, name_of, typed_in

LONGEST_LINE, LONGEST_ROW = 165, 420
DOCS = ROOT / "docs"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
REFERENCE_PAGES = sorted((DOCS / "reference").glob("*.md"))
ABOUT_THE_CODE = [CONTRIBUTING, *(page for page in PAGES if "internals" in page.relative_to(DOCS.parent).as_posix())]
FOLDERS = (
    ROOT,
    log_lines.PYTHON,
    log_lines.SCALA,
    log_lines.SCALA / "io" / "mooring",
    ROOT / "tests/unit",
)
_FILE = re.compile(r"[\w./-]+/|[\w./-]+\.(?:py|scala|md|toml|yml)")


made_pages = functools.cache(reference_pages.all_pages)
made_as_a_whole = functools.cache(reference_pages.whole_pages)
parser_of_all = functools.cache(functools.partial(parser_of, COMMANDS))


def prose_of(page):
    """The text of a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def commands_in(page):
    """The words of each command in a page's code blocks that calls `mooring`, also in a pod; without a redirection."""
    words = [typed.words for typed in typed_in(page) if typed.kind == "command"]
    called = [typed[typed.index("--") + 1 :] if typed[:2] == ["kubectl", "exec"] else typed for typed in words]
    return [list(takewhile(lambda word: word != ">", command)) for command in called if command[0] == "mooring"]


@pytest.mark.parametrize("page", REFERENCE_PAGES, ids=name_of)
def test_a_reference_page_is_as_the_code_is(page):
    """`make reference` writes them anew."""
    assert page.read_text() == made_pages()[page]


def test_every_reference_page_is_in_the_folder():
    assert sorted(made_pages()) == REFERENCE_PAGES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_on_a_page_exists(page):
    for words in commands_in(page):
        try:
            parse(words[1:], COMMANDS)
        except BadUsage as error:
            pytest.fail(f"{' '.join(words)}: {error}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_command_stands_in_a_fenced_block(page):
    """Commands elsewhere are not found, and so neither checked nor run."""
    assert not re.findall(r"^(?: {4}|\t)(?:\$ )?(?:mooring|make|pip|spark-submit) .*", page.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_and_option_in_a_sentence_exists(page):
    """As in `mooring plan --add-host`: a sentence leaves out what the command needs besides."""
    commands = parser_of_all().commands
    for name, options in re.findall(r"`mooring ([a-z][\w-]*)([^`\n]*)`", prose_of(page)):
        assert name in commands
        known = commands[name]._option_string_actions
        assert not [option for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", options) if option not in known]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_target_of_make_exists(page):
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.MULTILINE)
    assert not [target for target in named if target not in targets]


def test_the_page_for_emr_has_the_sample_as_the_command_prints_it():
    (shown,) = re.findall(
        r"^```json\n(.*?)^```$", (DOCS / "quick-start" / "emr.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert shown == render("emr")


def test_commands_are_found_on_pages():
    assert len([words for page in PAGES for words in commands_in(page)]) > 40


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_line_to_type_is_run_or_skipped_for_a_reason(page):
    """`python -m scripts.run_pages` runs them."""
    assert not [typed.text for typed in typed_in(page) if not run_pages.is_known(typed)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_are_short(page):
    """A row of a table is one line whatever is in it; what is made from the code is as long as it is there."""
    made = page.name in made_as_a_whole()
    lines = re.sub(r"<!-- (made|table): .*?<!-- end -->", "", page.read_text(), flags=re.DOTALL).splitlines()
    too_long = [line for line in lines if len(line) > (LONGEST_ROW if line.startswith("|") else LONGEST_LINE)]
    assert made or not too_long


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_row_of_a_table_has_as_many_cells_as_the_head(page):
    for table in re.findall(r"(?:^[ ]*\|.*\n?)+", prose_of(page), re.MULTILINE):
        cells = {len(re.sub(r"`[^`]*`|\\\|", "", row).split("|")) for row in table.splitlines()}
        assert len(cells) == 1, table[:200]


def test_every_documented_log_line_is_one_that_the_code_can_say():
    """A line on the page is cut at `…`; each of its pieces is in a text of the code."""
    page = (DOCS / "reference" / "log-lines.md").read_text().partition("<!-- made:")[0]
    documented = re.findall(r"^\| (?:driver|executor|any) \| (.*?) \|", page, re.MULTILINE)
    texts = log_lines.all_texts()
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


@pytest.mark.parametrize("page", ABOUT_THE_CODE, ids=name_of)
def test_every_file_that_a_page_about_the_code_names_exists(page):
    """A path is written from the repository's root, or below one of `FOLDERS`; a Scala file may be its name alone."""
    scala = {file.name for file in log_lines.SCALA.parents[1].rglob("*.scala")}
    named = [name for name in re.findall(r"`([^`\n]+)`", prose_of(page)) if _FILE.fullmatch(name) and name != "/"]
    missing = [name for name in named if name not in scala and not any((folder / name).exists() for folder in FOLDERS)]
    assert not [name for name in missing if not name.startswith(("_mooring", "/"))]


def test_names_of_files_are_found_on_pages_about_the_code():
    assert len(re.findall(r"`[^`\n]+\.(?:py|scala)`", CONTRIBUTING.read_text())) > 50


def test_a_newcomer_finds_the_commands_in_ten_lines():
    first = "\n".join(CONTRIBUTING.read_text().splitlines()[:10])
    (test,) = re.findall(r'make unit ARGS="-k (\w+)"', first)
    assert "make dev" in first
    assert any(f"def {test}(" in file.read_text() for file in (ROOT / "tests" / "unit").rglob("test_*.py"))


def test_internals_have_every_event_that_the_jvm_sends():
    page = (DOCS / "internals.md").read_text()
    own = {"ClockTicked"}
    sent = {kind.__name__ for kind in events.Event.__subclasses__() if kind.__module__ == events.__name__} - own
    assert len(sent) > 20
    assert not [name for name in sorted(sent) if f'{{"event": "{name}"' not in page]
