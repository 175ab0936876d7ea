"""`mooring jar`: the path of the plugin's jar, for `--jars`."""

from __future__ import annotations

import argparse

from mooring.cli.output import print_json
from mooring.jar import jar_path


def run(arguments: argparse.Namespace) -> None:
    """Print the path. MooringError, with what to do about it, when there is no jar."""
    path = str(jar_path())
    if arguments.json:
        print_json({"jar": path})
    else:
        print(path)
