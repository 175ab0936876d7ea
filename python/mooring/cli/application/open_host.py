"""`mooring open-host`: a host that was drained takes tasks and copies again."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.application.requests import ask

NAME: Final = "open-host"
HELP: Final = "let tasks and copies come to a drained host again"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_host_request(parser, "60s")


def run(arguments: argparse.Namespace) -> None:
    """Send the request. Errors as in `ask`."""
    host = arguments.host
    ask(arguments, f"open host {host}", lambda client, at: client.open_host(host, at))
