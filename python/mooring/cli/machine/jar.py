"""`mooring jar`: the path of the plugin's jar for a line of Spark, for `--jars`."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.output import print_json
from mooring.jar import jar_path, jars_by_line

NAME: Final = "jar"
HELP: Final = "print the path of the plugin's jar, for --jars"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "--spark",
        metavar="VERSION",
        help="the Spark that runs the job, such as 4.1, or `all` for a list; default: the Spark in SPARK_HOME, else"
        " that of PySpark",
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the path, or all paths by line. MooringError when there is no jar; the message says what to do."""
    if arguments.spark == "all":
        _print_all({line: str(path) for line, path in jars_by_line().items()}, arguments.json)
        return
    path = str(jar_path(arguments.spark))
    if arguments.json:
        print_json({"jar": path})
    else:
        print(path)


def _print_all(jars: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json({"jars": jars})
    else:
        for line, path in jars.items():
            print(f"{line}  {path}")
