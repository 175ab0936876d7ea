"""`mooring drain-host`: everything leaves one host, and nothing comes to it."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.application.requests import ask

NAME: Final = "drain-host"
HELP: Final = "move everything away from one host, and keep it empty"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_host_request(parser, "10m")


def run(arguments: argparse.Namespace) -> None:
    """Send the request. Errors as in `ask`."""
    host = arguments.host
    ask(arguments, f"drain host {host}", lambda client, at: client.drain_host(host, at))
