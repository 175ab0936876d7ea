"""What was tried on each version of Spark: keeps the results of test runs, and makes the table of them.

    make conformance SPARK=4.3.0 ARGS="--junitxml build/report.xml"
    python -m scripts.tried build/report.xml      keeps the result of each test that ran

A report names the version of Spark that ran. Tests of `tests/versions` are kept for the line that their names begin
with. `tests/versions/results/VERSION.json` has the last result of each test, by its file.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "tests" / "versions" / "results"
PROPERTY: Final = "spark"
"""The property of a report with the version of Spark. tests/conftest.py writes it."""

CAPABILITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "stateful jobs of every kind, through a kill and a restart": ("integration.test_jobs",),
    "host affinity: a restart opens local files": (
        "versions.test_smoke",
        "integration.test_idle_queries",
        "integration.test_prefetch",
    ),
    "hot standby: a loss continues at a copy": (
        "integration.test_standby",
        "integration.test_take_over",
        "integration.test_open_copies",
    ),
    "container placement": (
        "integration.test_placement",
        "integration.test_placement_flows",
        "integration.test_placement_with_copies",
    ),
    "drain and stop": (
        "integration.test_drain",
        "integration.test_drain_operators",
        "integration.test_drain_sources",
    ),
    "a checkpoint of stock Spark is adopted and given back": (
        "integration.test_no_lock_in",
        "integration.test_format_with_stock",
    ),
    "going back to an earlier batch": ("integration.test_rollback",),
    "the catalogue in Delta, `export`": (
        "integration.test_catalogue",
        "integration.test_catalogue_faults",
        "integration.test_export",
    ),
    "failover of the driver": ("integration.test_driver_standby", "integration.test_zookeeper_application"),
    "to the next line of Spark, and both formats": ("versions.test_checkpoints",),
    "real-time mode": ("versions.test_real_time",),
    "what Mooring reaches in Spark by reflection": ("versions.test_each_line",),
}
"""The rows of the table: what a user asks for, and the files of tests that show it."""

Results = dict[str, dict[str, str]]
"""By file and test: `passed`, `failed`, or `skipped: ` and the reason; then properties of the test, `; name: text`."""

_FORMATS: Final = "versions.test_checkpoints"
_FORMATS_TEST: Final = re.compile(r"test_a_checkpoint_of_one_format_where_\w+\[[\d.]+-(\d)-(\d)\]")
_ENDS: Final = ("stock", "mooring")
"""The properties of that test: how the query ends."""

_LINE_IN_NAME = re.compile(r"\[(\d+\.\d+)[-\]]")


def results_in(report: Path) -> dict[str, Results]:
    """By version of Spark, from a report that pytest has written with `--junitxml`. ValueError without a version."""
    root = ElementTree.parse(report).getroot()
    versions = {one.get("value", "") for one in root.iter("property") if one.get("name") == PROPERTY}
    if len(versions) != 1:
        raise ValueError(f"{report}: expected one property {PROPERTY}, with the version of Spark, and not {versions}")
    found: dict[str, Results] = {}
    for case in root.iter("testcase"):
        name, where = case.get("name", ""), case.get("classname", "").removeprefix("tests.")
        line = _LINE_IN_NAME.search(name) if where.startswith("versions.") else None
        version = line[1] if line else next(iter(versions))
        found.setdefault(version, {}).setdefault(where or name, {})[name] = _outcome(case)
    return found


def _outcome(case: ElementTree.Element) -> str:
    skip = case.find("skipped")
    if skip is not None:
        return f"skipped: {skip.get('message', '')}"
    outcome = "passed" if case.find("failure") is None and case.find("error") is None else "failed"
    noted = {one.get("name", ""): one.get("value", "") for one in case.iter("property")}
    return "; ".join([outcome, *(f"{name}: {noted[name]}" for name in _ENDS if name in noted)])


def keep(found: Mapping[str, Results], folder: Path = RESULTS) -> None:
    """Put the results in place of earlier ones of the same tests.

    Results of a line, such as `4.0`, go to the file of its newest version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for version, results in found.items():
        before = kept(folder)
        name = max([version, *(known for known in before if known.startswith(f"{version}."))], key=_parts)
        of_line = next((known for known in before if name.startswith(f"{known}.")), name)
        merged: Results = {}
        for earlier in (before.get(of_line, {}), before.get(name, {}), results):
            merged |= {file: merged.get(file, {}) | of for file, of in earlier.items()}
        (folder / f"{name}.json").write_text(json.dumps(merged, indent=0, sort_keys=True) + "\n")
        if of_line != name:
            (folder / f"{of_line}.json").unlink(missing_ok=True)


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def kept(folder: Path = RESULTS) -> dict[str, Results]:
    """By version of Spark, the oldest first."""
    files = sorted(folder.glob("*.json"), key=lambda file: _parts(file.stem))
    return {file.stem: json.loads(file.read_text()) for file in files}


def table(results: Mapping[str, Results]) -> str:
    """A row for each capability, a column for each version of Spark, and the reasons of skipped tests below."""
    if not results:
        return "No result is kept yet.\n"
    lines = [f"| | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for capability, files in CAPABILITIES.items():
        lines.append(f"| {capability} | {' | '.join(_cell(files, of) for of in results.values())} |")
    of_table = {file for files in CAPABILITIES.values() for file in files}
    reasons = {
        f"{spark}: {outcome.removeprefix('skipped: ').strip()}"
        for spark, of in results.items()
        for file in of_table & of.keys()
        for outcome in of[file].values()
        if outcome.startswith("skipped")
    }
    if reasons:
        lines += ["", "Skipped, and why:", "", *(f"- {reason}" for reason in sorted(reasons))]
    return "\n".join(lines) + "\n"


def formats_table(results: Mapping[str, Results]) -> str:
    """How a query ends whose settings name another format of the checkpoint: on stock Spark, and with Mooring."""
    ends: dict[tuple[str, str], dict[str, str]] = {}
    for spark, of in results.items():
        for test, outcome in of.get(_FORMATS, {}).items():
            formats = _FORMATS_TEST.fullmatch(test)
            if formats is not None:
                said = dict(part.split(": ", 1) for part in outcome.split("; ") if ": " in part)
                cell = "<br>".join(f"{name}: {said[name]}" for name in _ENDS if name in said)
                ends.setdefault((formats[1], formats[2]), {})[spark] = cell or outcome
    if not ends:
        return "No result is kept yet.\n"
    columns = [spark for spark in results if any(spark in cells for cells in ends.values())]
    lines = [f"| checkpoint | settings | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    for (begun, wanted), cells in sorted(ends.items()):
        lines.append(f"| v{begun} | v{wanted} | {' | '.join(cells.get(spark, 'not run') for spark in columns)} |")
    return "\n".join(lines) + "\n"


def _cell(files: Iterable[str], results: Results) -> str:
    """Such as `12 passed, 1 skipped`; `not run` where no test of the capability was run."""
    outcomes = [re.split("[:;]", outcome)[0] for file in files for outcome in results.get(file, {}).values()]
    counts = Counter(outcomes)
    return ", ".join(f"{counts[what]} {what}" for what in ("passed", "failed", "skipped") if counts[what]) or "not run"


def main(arguments: list[str]) -> int:
    """Keep the results of some reports; the exit code."""
    if not arguments:
        print("python -m scripts.tried REPORT.xml ...", file=sys.stderr)
        return 2
    for report in arguments:
        try:
            keep(results_in(Path(report)))
        except (OSError, ValueError, ElementTree.ParseError) as problem:
            print(problem, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
