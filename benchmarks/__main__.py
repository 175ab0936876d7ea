"""Stock Spark and Mooring side by side: `python -m benchmarks NAME [--quick] [--json FILE]`.

A benchmark NAME is a file `benchmarks/NAME.py` with a function `run(quick: bool)`. The function returns the result in
the form that docs/benchmarks.md describes. A benchmark with several loads also takes a `part` of itself:
`--load NAME ... --gb SIZE ... --rounds NUMBER`.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import inspect
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.part import WHOLE, Part
from benchmarks.report import table
from mooring.cli.exits import BadUsage
from mooring.errors import MooringError

FOLDER = Path(__file__).resolve().parent
_RUN = re.compile(r"^def run\(quick\b", re.MULTILINE)


def names(folder: Path = FOLDER) -> list[str]:
    """The names of all benchmarks, found without importing them."""
    return sorted(path.stem for path in folder.glob("[a-z]*.py") if _RUN.search(path.read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark. Returns the exit code: 0 done, 1 it failed, 2 bad usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("name", help=f"one of {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="a short run: shows that it works, not how fast it is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result into this file")
    parser.add_argument("--load", action="extend", nargs="+", default=[], metavar="NAME", help="only these loads")
    parser.add_argument(
        "--gb",
        action="extend",
        nargs="+",
        default=[],
        type=_positive(float),
        metavar="SIZE",
        help="only state this large",
    )
    parser.add_argument(
        "--rounds", type=_positive(int), metavar="NUMBER", help="how often each side runs with each load and size"
    )
    options = parser.parse_args(arguments)
    if options.name not in names():
        near = difflib.get_close_matches(options.name, names(), n=1, cutoff=0.0)
        parser.error(f"no benchmark {options.name!r}; expected one of {', '.join(names())}; nearest: {near[0]}")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"--json {options.json}: expected a file in a directory that exists")
    run = importlib.import_module(f"benchmarks.{options.name}").run
    part = Part(tuple(options.load), tuple(options.gb), options.rounds)
    if part != WHOLE and "part" not in inspect.signature(run).parameters:
        parser.error(f"{options.name} runs as a whole; expected no --load, --gb or --rounds with it")
    try:
        result = run(options.quick) if part == WHOLE else run(options.quick, part)
    except BadUsage as error:
        parser.error(f"{options.name}: {error}")
    except MooringError as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{result['name']}{' (quick)' if options.quick else ''}\n\n{table(result)}")
    return 0


def _positive(kind: type[float]) -> Callable[[str], float]:
    """A `type` for argparse: it reads a number above zero. argparse adds the argument's name to its errors."""

    def read(text: str) -> float:
        try:
            number = kind(text)
        except ValueError:
            number = kind(0)
        if not 0 < number < math.inf:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a number above zero, such as {kind(1)}")
        return number

    return read


if __name__ == "__main__":
    sys.exit(main())
