"""Makes the pages of docs/reference from the code.

    python -m scripts.reference_pages            writes the pages
    python -m scripts.reference_pages --check    lists pages that differ from the code; exit code 1 then

Some pages are made as a whole. Others are written by hand, with parts between `<!-- made: NAME -->` and `<!-- end -->`
that are made. `tests/unit/docs` compares the pages with the code.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

from mooring.agent.counters import Counters
from mooring.agent.state.fleet import Fleet
from mooring.agent.status import metrics_of
from mooring.cli.application import states
from mooring.cli.commands import parser_of
from mooring.cli.exits import Exit
from mooring.cli.machine.conf import render_settings_page
from mooring.cli.main import COMMANDS, INTERRUPTED
from mooring.cli.output import UNLIMITED
from mooring.drain import DrainNotification
from mooring.drain.notification import StopMode
from mooring.model import ContainerModel, JobModel, SystemStreamPartition, TaskModel, TaskName, events, orders
from mooring.model.job_model_json import job_model_to_json
from mooring.placement import ContainerPlacementRequestMessage, StatusCode
from mooring.settings import TABLE as SETTINGS
from scripts import tried
from scripts.log_lines import PYTHON, SCALA, Line, agent_lines, scala_lines

__all__ = ["SETTINGS", "all_pages", "whole_pages"]

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
_MADE_BY = "Made from the code by `make reference`; do not edit."
_PART = re.compile(r"(<!-- made: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def whole_pages() -> dict[str, str]:
    """The text of every page that is made as a whole, by its name."""
    return {"commands.md": commands_page(), "settings.md": settings_page(), "states.md": states_page()}


def parts() -> Mapping[str, Callable[[], str]]:
    """The function that makes each part of a page, by the part's name."""
    return {
        "metrics-of-the-driver": lambda: _names_table(driver_metrics()),
        "metrics-of-an-executor": lambda: _names_table(executor_metrics()),
        "metrics-of-an-operator": lambda: _names_table(operator_metrics()),
        "lines-of-the-jvms": lambda: _lines_table(scala_lines()),
        "lines-of-the-agent": lambda: _lines_table(agent_lines()),
        "samples": samples,
        "events": lambda: _classes_table(events, events.Event),
        "orders": lambda: _classes_table(orders, orders.Order),
        "exit-codes": exit_codes,
        "tried-on-each-version": lambda: tried.table(tried.kept()),
        "formats-on-each-version": lambda: tried.formats_table(tried.kept()),
    }


def filled(page: str) -> str:
    """A page with its parts made from the present code."""
    made = parts()
    return _PART.sub(lambda found: f"{found[1]}\n{made[found[2]]()}\n{found[3]}", page)


def all_pages() -> dict[Path, str]:
    """The right text of every page in the folder."""
    whole = {PAGES / name: text for name, text in whole_pages().items()}
    by_hand = {page: filled(page.read_text()) for page in sorted(PAGES.glob("*.md")) if page not in whole}
    return {**whole, **by_hand}


# Commands


def commands_page() -> str:
    """Every command with its arguments, from the parser itself."""
    parser = parser_of(COMMANDS)
    commands = parser.commands
    summaries = {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    lines = ["# Commands", "", f"<!-- {_MADE_BY} -->", ""]
    lines += ["`mooring COMMAND --help` prints the same. `mooring --version` prints the version.", ""]
    lines += ["| command | |", "|---|---|"]
    lines += [f"| [`{name}`](#{name}) | {_cell(summaries.get(name, ''))} |" for name in sorted(commands)]
    lines += ["", "Every command ends with one of these codes:", "", exit_codes()]
    for name in sorted(commands):
        lines += [f"## {name}", "", _sentence(summaries.get(name, "")), "", *_arguments(commands[name])]
    return "\n".join(lines).rstrip() + "\n"


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [action for action in parser._actions if action.dest != "help" and action.help != argparse.SUPPRESS]
    if not actions:
        yield from ("It has no arguments.", "")
        return
    yield from ("| argument | |", "|---|---|")
    for action in actions:
        names = ", ".join(f"`{name}`" for name in action.option_strings)
        choices = " or ".join(f"`{choice}`" for choice in action.choices or ())
        value = "" if action.nargs == 0 else choices or f"`{action.metavar or action.dest.upper()}`"
        description = _with_code((action.help or "") % {**vars(action), "prog": parser.prog})
        needed = " (required)" if action.required and action.option_strings else ""
        yield f"| {' '.join(part for part in (names, value) if part)} | {_cell(description)}{needed} |"
    yield ""


def exit_codes() -> str:
    """The table of exit codes."""
    meanings = {
        Exit.DONE: "done; without `--wait`: the request is written",
        Exit.FAILED: "it failed, or the application has ended, or no status is there",
        Exit.USAGE: "bad usage, a missing package, or a root that several applications share",
        Exit.UNREACHABLE: "the store can not be reached",
        Exit.TIMED_OUT: "not done within `--timeout`; the request goes on",
        Exit.NOT_UNDERSTOOD: "a checkpoint has something that this version does not understand",
    }
    rows = [f"| {code.value} | {meanings[code]} |" for code in Exit]
    return "\n".join(["| exit code | |", "|---:|---|", *rows, f"| {INTERRUPTED} | Ctrl-C |"]) + "\n"


# Settings


def settings_page() -> str:
    """The page `conf/settings.md`, with links that work in docs/reference."""
    page = render_settings_page()
    page = re.sub(r"<!-- .*? -->", f"<!-- {_MADE_BY} -->", page, count=1)
    page = re.sub(r"docs/quick-start/(\w+)\.md", r"[the quick start](../quick-start/\1.md)", page)
    return re.sub(r"docs/guides/(\w+)\.md", r"[\1](../guides/\1.md)", page)


# States of a request


def states_page() -> str:
    """The table of `mooring states`, and the meaning of each status."""
    meanings = {
        StatusCode.CREATED: "written, and not read yet",
        StatusCode.BAD_REQUEST: "refused; the answer has the reason; final",
        StatusCode.ACCEPTED: "it can be done, and waits for its turn",
        StatusCode.IN_PROGRESS: "under way",
        StatusCode.SUCCEEDED: "done; final",
        StatusCode.FAILED: "not done; the answer has the reason; final",
    }
    head = [
        "# States of a request",
        "",
        f"<!-- {_MADE_BY} -->",
        "",
        "A request is what `place-container`, `drain-host`, `open-host` and `control-standby` write.",
        "`mooring states` prints the table below; the agent works by it.",
        "",
        "| status | |",
        "|---|---|",
        *(f"| `{status.value}` | {meanings[status]} |" for status in StatusCode),
        "",
        "From each phase that makes a job model, `FAILED` comes also when no job model keeps all promises",
        "(`no plan for it: …`). Then the last plan stays.",
        "",
        "```text",
    ]
    shown = states.as_text(UNLIMITED)
    return "\n".join([*head, *(line.rstrip() for line in shown.splitlines()), "```"]) + "\n"


# Metrics

MEANINGS = {
    "preferred-host-requests": "tasks with state that asked for an executor",
    "any-host-requests": "tasks with state that asked for no executor",
    "host-affinity-match-pct": "how many of the tasks that asked ran where they asked to, in percent",
    "restore-bytes-local": "bytes that the hosts' disks gave when state stores were opened",
    "restore-bytes-remote": "bytes that the checkpoint gave when state stores were opened",
    "moves": "tasks that a plan gave to another processor",
    "failovers-to-standby": "tasks that went on where a copy of their state was; a new agent counts from 0",
    "failovers-to-any-host": "tasks that went on where no copy was; a new agent counts from 0",
    "failed-standby-allocations": "copies that found no place in a plan",
    "failed-container-placement-actions": "requests of operators that ended `FAILED`",
    "drain-state.<query>": "1 frozen, 2 caught up, 3 flushed, 4 drained, 5 stopped, -1 refused, -2 failed, -3 left out",
    "standby-lag-versions.<task>": "how many versions the copy that is furthest behind lags",
    "standby-lag-ms.<task>": "the same in milliseconds",
    "restore-ms.<task>": "how long bringing up the task's state took the last time",
    "estimated-recovery-seconds.<task>": "how long a recovery would take, were the executor lost now",
    "keeping-ms": "how much longer writing state took because the host keeps it, all threads together",
    "standby-open-stores": "open copies that wait on this executor",
    "mooring.restore-bytes-local": "bytes that this batch read from the host's disk to open the operator's stores",
    "mooring.restore-bytes-remote": "bytes that this batch read from the checkpoint to open the operator's stores",
    "mooring.restore-ms": "how long that took, over the operator's partitions",
    "mooring.drain-state": "0 ordinary, 1 it catches up after the freeze, 2 it lets out what was held back; of a batch",
}
"""The meaning of each metric. A test fails when the code has a name that is not here, or the reverse."""


def driver_metrics() -> list[str]:
    """The names of the gauges of the driver, from the code."""
    scala = _scala_text()
    found = re.findall(r'Metrics\.set\("([\w-]+)"', scala)
    found += re.findall(r'"([\w-]+)"', re.findall(r"val names = Seq\((.*?)\)", scala, re.DOTALL)[0])
    found += metrics_of(Fleet(), Counters())
    in_status = (PYTHON / "agent" / "status.py").read_text()
    found += [
        f"{name}.<{'query' if name == 'drain-state' else 'task'}>" for name in re.findall(r'f"([a-z-]+)\.\{', in_status)
    ]
    return sorted(set(found))


def executor_metrics() -> list[str]:
    """The names of the gauges of an executor, from the code."""
    return sorted(re.findall(r'Metrics\.register\(registry, "([\w-]+)"', _scala_text()))


def operator_metrics() -> list[str]:
    """The names of the custom metrics of a stateful operator, from the code."""
    return sorted(set(re.findall(r'"(mooring\.[a-z-]+)"', _scala_text("org"))))


def _names_table(names: Iterable[str]) -> str:
    rows = [f"| `{name}` | {MEANINGS[name]} |" for name in names]
    return "\n".join(["| name | |", "|---|---|", *rows]) + "\n"


# Log lines


def _lines_table(lines: Iterable[Line]) -> str:
    rows = [f"| {level} | `{_cell(text.replace(chr(96), chr(39)))}` | {file} |" for level, text, file in lines]
    return "\n".join(["| level | line | said by |", "|---|---|---|", *rows]) + "\n"


# JSON


def samples() -> str:
    """One sample of each message and record, written by the code itself."""
    uuid, task = UUID("88b0d30c-d518-4307-9e8e-c8529eb30f04"), TaskName("clicks/Partition 0")
    stores = frozenset({SystemStreamPartition("spark", "clicks/0/default", 0)})
    model = JobModel.of([ContainerModel.of("0", [TaskModel(task, stores, 0)], "10.0.0.7")], version=12)
    request = ContainerPlacementRequestMessage(uuid, "app-0001", "4", "10.0.0.7", 1578694070875, 10_000)
    response = request.answered(StatusCode.SUCCEEDED, "the tasks run there", 1578694099000)
    shown = {
        "Job model, `job-models/<version>` (in ZooKeeper `jobModels/<version>`)": json.loads(job_model_to_json(model)),
        "Placement request, `samza-place-container-v1/<uuid>.ContainerPlacementRequestMessage`": request.as_json(),
        "Placement response, `samza-place-container-v1/<uuid>.ContainerPlacementResponseMessage`": response.as_json(),
        "Drain notification, `samza-drain-v1/<uuid>`": json.loads(DrainNotification(uuid, "app-0001").to_json()),
        "Stop, in the same place": json.loads(
            DrainNotification(uuid, "app-0001", query="clicks", stop=StopMode.AFTER_BATCH).to_json()
        ),
    }
    return "\n".join(f"**{name}**\n\n```json\n{json.dumps(form, indent=2)}\n```\n" for name, form in shown.items())


def _classes_table(module: object, base: type) -> str:
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, base) and value is not base and dataclasses.is_dataclass(value)
    ]
    rows = []
    for listed in classes:
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(listed))
        rows.append(f"| `{listed.__name__}` | {_cell(_first_sentence(listed.__doc__ or ''))} | {fields} |")
    return "\n".join(["| name | | fields |", "|---|---|---|", *rows]) + "\n"


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ')')) or not text else '.'}"


def _with_code(text: str) -> str:
    """The text with options, keys and variables set as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][\w-]*|spark\.[\w.*]*[\w*]|MOORING_\w+)", r"`\1`", text)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _scala_text(below: str = "") -> str:
    return "\n".join(file.read_text() for file in sorted((SCALA / below).rglob("*.scala")))


def main(arguments: list[str]) -> int:
    """The command line."""
    pages = all_pages()
    stale = [page for page, text in pages.items() if not page.exists() or page.read_text() != text]
    if "--check" in arguments:
        for page in stale:
            print(f"{page.relative_to(ROOT)} is not as the code is: make reference", file=sys.stderr)
        return 1 if stale else 0
    for page in stale:
        page.write_text(pages[page])
        print(page.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
