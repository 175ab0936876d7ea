"""`mooring stop`: queries end, and keep their state for the next start."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.agent.drains.drainage import OVER
from mooring.cli import options
from mooring.cli.application.endings import end_queries
from mooring.drain import StopMode

NAME: Final = "stop"
HELP: Final = "end queries, and keep their state for the next start"
MODES: Final = {mode.value.lower().replace("_", "-"): mode for mode in StopMode}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser)
    parser.add_argument(
        "--mode",
        choices=list(MODES),
        required=True,
        help="after the running batch, after all available input, or now, in the middle of a batch",
    )
    options.add_query(parser)
    options.add_waiting(parser, "10m")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Ask for a stop, and with `--wait` wait for its end. A query that is drained meanwhile counts as stopped."""
    mode = MODES[arguments.mode]
    end_queries(arguments, "stop", lambda client, deployment: client.stop(deployment, mode, arguments.query), OVER)
