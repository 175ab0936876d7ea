"""`mooring jar`: the path of the plugin's jar, for `--jars`."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.output import print_json
from mooring.jar import jar_path

NAME: Final = "jar"
HELP: Final = "print the path of the plugin's jar, for --jars"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the path. MooringError when there is no jar; the message says how to build it."""
    path = str(jar_path())
    if arguments.json:
        print_json({"jar": path})
    else:
        print(path)
