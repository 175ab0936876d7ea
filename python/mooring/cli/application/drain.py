"""`mooring drain`: queries give out what they hold, and end."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.application import drain_checkpoint
from mooring.cli.application.endings import end_queries

NAME: Final = "drain"
HELP: Final = "stop the intake of queries, let out what they hold, and end them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser, has_own_checkpoint=True)
    options.add_query(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="DIRECTORY",
        help="drain a query that does not run: at its next start, without any new input",
    )
    options.add_waiting(parser, "10m")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Ask for a drain, and with `--wait` wait for its end. Errors as in `end_queries` and `drain_checkpoint.run`."""
    if arguments.checkpoint is not None:
        drain_checkpoint.run(arguments)
    else:
        end_queries(
            arguments, "drain", lambda client, deployment: client.drain(deployment, arguments.query), ("drained",)
        )
