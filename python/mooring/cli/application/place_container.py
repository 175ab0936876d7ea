"""`mooring place-container`: one processor goes to another host, or is restarted."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.application.requests import ask
from mooring.cli.durations import duration

NAME: Final = "place-container"
HELP: Final = "move one processor to another host, or restart it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser)
    options.add_processor(parser, "a processor, as mooring status shows it, or a standby of it such as 4-0")
    parser.add_argument(
        "--destination-host",
        metavar="HOST",
        required=True,
        help="a location as mooring status shows it, ANY_HOST, STANDBY (a host with copies of its tasks) or LAST_SEEN"
        " (the host where it is: its executor is replaced; not on YARN and Kubernetes). The location where it is means"
        " LAST_SEEN, unless the processor comes there after the request was made",
    )
    parser.add_argument(
        "--request-expiry",
        metavar="TIME",
        type=duration("--request-expiry", "10s"),
        help="for how long an executor is looked for there, or waited for after a restart, such as 10s (default: 60s"
        " for a move, 120s for a restart)",
    )
    options.add_waiting(parser, "10m")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Send the request. Errors as in `ask`."""
    id, destination = arguments.processor_id, arguments.destination_host
    expiry_ms = arguments.request_expiry
    ask(
        arguments,
        f"place processor {id} on {destination}",
        lambda client, deployment: client.place_container(id, destination, deployment, expiry_ms),
    )
