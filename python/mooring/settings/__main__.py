"""`python -m mooring.settings [--json]`: print the table of settings. The build packs the JSON into the jar."""

from __future__ import annotations

import argparse
import sys

from mooring.settings.table import TABLE, table_as_json


def main(arguments: list[str]) -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mooring.settings", description="Print every setting of Mooring.")
    parser.add_argument("--json", action="store_true", help="as JSON, as it is packed into the jar")
    if parser.parse_args(arguments).json:
        sys.stdout.write(table_as_json())
        return 0
    width = max(len(setting.key) for setting in TABLE)
    for setting in TABLE:
        print(f"{setting.key:<{width}}  {setting.default or '-':<10}  {setting.doc}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
