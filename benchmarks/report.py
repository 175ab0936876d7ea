"""Markdown tables from benchmark results, for docs/benchmarks.md.

    python -m benchmarks.report [RESULT.json ...]      default: benchmarks/results/*.json; prints one table each
    python -m benchmarks.report --into docs/benchmarks.md

The notes are filled in the same way: `--into benchmarks/notes/restart.md`.

`--into` replaces each part of the page between `<!-- table: NAME -->` and `<!-- end -->` by the table of the result
NAME. `NAME figure figure ...` selects figures, and `column=value` among them selects rows, as in `restart open-seconds
storage=slow`. It replaces each part between `<!-- figures: NAME -->` and `<!-- end -->` by the explanation of the
figures in the benchmark's module. The rest of the page is written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

Result = dict[str, Any]

RESULTS = Path(__file__).parent / "results"
_PART = re.compile(r"(<!-- table: (\S+)((?: \S+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
_FIGURES = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_OWN = ("figure", "unit")


def table(result: Result, chosen: Sequence[str] = ()) -> str:
    """A table of a result, with a line for each row.

    `chosen` selects rows: names of figures, in the wanted order, and `column=value` for rows that have this value.
    Without names, all figures are in the table.
    """
    rows = [{name: value for name, value in row.items() if value is not None} for row in result["rows"]]
    figures = [word for word in chosen if "=" not in word]
    for column, _, value in (word.partition("=") for word in chosen if "=" in word):
        rows = [row for row in rows if _plain(row.get(column, "")) == value]
    if figures:
        rows = [row for figure in figures for row in rows if row["figure"] == figure]
    variants = _in_order(name for row in rows for name, value in row.items() if isinstance(value, dict))
    ratios = _in_order(name for row in rows for name in row if name.startswith("ratio"))
    what = _in_order(
        name for row in rows for name in row if name not in {*_OWN, *variants, *ratios} and _varies(rows, name)
    )
    head = ["figure", *(name.replace("state-gb", "state (GB)") for name in what), *variants, *ratios]
    lines = [head, ["---"] * (1 + len(what)) + ["---:"] * (len(variants) + len(ratios))]
    for row in rows:
        case = [_plain(row.get(name, "")) for name in what]
        measured = [_spread(row[name], row["unit"]) if name in row else "" for name in variants]
        lines.append([row["figure"], *case, *measured, *(_number(row[name]) if name in row else "" for name in ratios)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def filled(page: str, results: dict[str, Result]) -> str:
    """The page with new tables and figures. A table without a result stays as it is."""

    def part(found: re.Match[str]) -> str:
        if found[2] not in results:
            return found[0]
        return f"{found[1]}\n{table(results[found[2]], found[3].split())}\n{found[4]}"

    return _FIGURES.sub(lambda found: f"{found[1]}\n{figures_of(found[2])}\n{found[3]}", _PART.sub(part, page))


def figures_of(name: str) -> str:
    """The explanation of a benchmark's figures: the indented lines of its module's docstring."""
    words = import_module(f"benchmarks.{name}").__doc__ or ""
    return "".join(f"{line}\n" for line in words.splitlines() if line.startswith("    "))


def read_results(files: Sequence[Path]) -> dict[str, Result]:
    """The results in these files, by the file's name without its ending."""
    return {file.stem: json.loads(file.read_text()) for file in files}


def _in_order(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def _varies(rows: Sequence[dict[str, Any]], name: str) -> bool:
    """Whether a column has more than one value."""
    return len({json.dumps(row.get(name)) for row in rows}) > 1


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _spread(spread: dict[str, float], unit: str) -> str:
    """The median, with the least and the greatest in brackets when there are several values."""
    shown = [_amount(spread[name], unit) for name in ("median", "min", "max")]
    return f"{shown[0]} ({shown[1]}–{shown[2]})" if spread["n"] > 1 else shown[0]


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:,.1f} MB" if value else "0"
    if unit in ("s", "seconds"):
        return f"{_number(value)} s"
    if unit in ("bytes/byte", "x"):
        return _number(value)
    return f"{value:,.0f}"


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Markdown tables from benchmark results.")
    parser.add_argument("files", nargs="*", type=Path, help="default: benchmarks/results/*.json")
    parser.add_argument("--into", type=Path, help="a page whose tables are replaced")
    options = parser.parse_args(arguments)
    results = read_results(options.files or sorted(RESULTS.glob("*.json")))
    if options.into:
        options.into.write_text(filled(options.into.read_text(), results))
    else:
        print("\n".join(f"### {name}\n\n{table(result)}" for name, result in results.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
