"""Stock Spark and Mooring side by side: `python -m benchmarks NAME [--quick] [--json FILE]`.

A benchmark NAME is a file `benchmarks/NAME.py` with `run(quick: bool)`, which answers in the form of CONTRACTS 8.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import table
from mooring.errors import MooringError

FOLDER = Path(__file__).resolve().parent
_RUN = re.compile(r"^def run\(quick\b", re.MULTILINE)


def names(folder: Path = FOLDER) -> list[str]:
    """The benchmarks there are; none is imported for that."""
    return sorted(path.stem for path in folder.glob("[a-z]*.py") if _RUN.search(path.read_text(encoding="utf-8")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark. Exit code 0 done, 1 it failed, 2 bad usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    parser.add_argument("name", help=f"one of {', '.join(names())}")
    parser.add_argument("--quick", action="store_true", help="less of it: shows that it works, not how fast it is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result into this file")
    options = parser.parse_args(arguments)
    if options.name not in names():
        near = difflib.get_close_matches(options.name, names(), n=1, cutoff=0.0)
        parser.error(f"no benchmark {options.name!r}; expected one of {', '.join(names())}; nearest: {near[0]}")
    if options.json is not None and not options.json.absolute().parent.is_dir():
        parser.error(f"--json {options.json}: expected a file in a directory that exists")
    try:
        result = importlib.import_module(f"benchmarks.{options.name}").run(quick=options.quick)
    except MooringError as error:
        print(f"{options.name}: {error}", file=sys.stderr)
        return 1
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"{result['name']}{' (quick)' if options.quick else ''}\n\n{table(result)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
