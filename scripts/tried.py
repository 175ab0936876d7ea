"""What was tried on each version of Spark: keeps the results of test runs, and makes the table of them.

    make conformance SPARK=4.3.0 ARGS="--junitxml build/conformance.xml"
    python -m scripts.tried 4.3.0 build/conformance.xml      keeps the results of the test files that ran

`tests/versions/results/VERSION.json` has for each file of tests how many tests passed, failed and were skipped, the
reasons of the skips, and the commit. A later run of a file replaces what an earlier run of it left.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "versions" / "results"

CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "stateful jobs of every kind, through a kill and a restart": ("test_jobs",),
    "host affinity: a restart opens local files": ("test_smoke", "test_idle_queries", "test_prefetch"),
    "hot standby: a loss continues at a copy": ("test_standby", "test_take_over", "test_open_copies"),
    "container placement": ("test_placement", "test_placement_flows", "test_placement_with_copies"),
    "drain and stop": ("test_drain", "test_drain_operators", "test_drain_sources"),
    "a checkpoint of stock Spark is adopted and given back": ("test_no_lock_in", "test_format_with_stock"),
    "going back to an earlier batch": ("test_rollback",),
    "the catalogue in Delta, `export`": ("test_catalogue", "test_catalogue_faults", "test_export"),
    "failover of the driver": ("test_driver_standby", "test_zookeeper_application"),
    "to the next line of Spark, and both formats": ("test_checkpoints",),
    "what Mooring reaches in Spark by reflection": ("test_spark_lacks_an_access", "test_each_line"),
}
"""The rows of the table: what a user asks for, and the files of tests that show it."""


@dataclass(frozen=True)
class Result:
    """The result of one file of tests on one version of Spark. `skipped` has the reasons, each once, with a count."""

    commit: str
    passed: int
    failed: int
    skipped: Mapping[str, int]


def results_in(report: Path, commit: str) -> dict[str, Result]:
    """By the name of the test file, from a report that pytest has written with `--junitxml`."""
    cases: dict[str, list[ElementTree.Element]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        cases.setdefault(case.get("classname", "").rpartition(".")[2], []).append(case)
    return {name: _result(of_file, commit) for name, of_file in cases.items()}


def _result(cases: Iterable[ElementTree.Element], commit: str) -> Result:
    passed, failed, skipped = 0, 0, dict[str, int]()
    for case in cases:
        skip = case.find("skipped")
        if skip is not None:
            reason = skip.get("message", "")
            skipped[reason] = skipped.get(reason, 0) + 1
        elif case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        else:
            passed += 1
    return Result(commit, passed, failed, skipped)


def keep(spark: str, found: Mapping[str, Result], folder: Path = RESULTS) -> Path:
    """Put the results beside those that are kept for this version of Spark; the file."""
    file = folder / f"{spark}.json"
    known = kept(folder).get(spark, {}) | dict(found)
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: asdict(known[name]) for name in sorted(known)}, indent=1) + "\n")
    return file


def kept(folder: Path = RESULTS) -> dict[str, dict[str, Result]]:
    """By version of Spark, the oldest first, and the name of the test file."""
    files = sorted(folder.glob("*.json"), key=lambda file: [int(part) for part in file.stem.split(".")])
    return {file.stem: {name: Result(**of) for name, of in _read(file).items()} for file in files}


def _read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def table(results: Mapping[str, Mapping[str, Result]]) -> str:
    """A row for each capability, a column for each version of Spark, and the reasons of skipped tests below."""
    if not results:
        return "No result is kept yet.\n"
    lines = [f"| | {' | '.join(results)} |", "|---" * (len(results) + 1) + "|"]
    for capability, files in CAPABILITIES.items():
        lines.append(f"| {capability} | {' | '.join(_cell(files, of) for of in results.values())} |")
    reasons = {
        f"{spark}: {reason.strip()}" for spark, of in results.items() for one in of.values() for reason in one.skipped
    }
    if reasons:
        lines += ["", "Skipped, and why:", "", *(f"- {reason}" for reason in sorted(reasons))]
    return "\n".join(lines) + "\n"


def _cell(files: Iterable[str], results: Mapping[str, Result]) -> str:
    """Such as `12 passed, 1 skipped`; `not run` where no file of the capability was run."""
    ran = [results[name] for name in files if name in results]
    counts = {
        "passed": sum(one.passed for one in ran),
        "failed": sum(one.failed for one in ran),
        "skipped": sum(sum(one.skipped.values()) for one in ran),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "not run"


def main(arguments: list[str]) -> int:
    """Keep the results of one run; the exit code."""
    if len(arguments) != 2:
        print("python -m scripts.tried VERSION REPORT.xml", file=sys.stderr)
        return 2
    spark, report = arguments
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    print(keep(spark, results_in(Path(report), git.stdout.strip())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
