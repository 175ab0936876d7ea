"""`mooring control-standby`: the copies of one processor's tasks are stopped, or started again."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.application.requests import ask
from mooring.placement import StandbyAction

NAME: Final = "control-standby"
HELP: Final = "start or stop the standbys of one processor's tasks"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser)
    options.add_processor(parser)
    parser.add_argument("action", choices=["start", "stop"], help="stop the copies of its tasks, or start them again")
    options.add_waiting(parser, "60s")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Send the request. Errors as in `ask`."""
    what = f"{arguments.action} the standbys of processor {arguments.processor_id}"
    action = StandbyAction(arguments.action.upper())
    ask(arguments, what, lambda client, at: client.control_standby(arguments.processor_id, action, at))
