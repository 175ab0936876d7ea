"""`mooring help CMD`: what `mooring CMD --help` prints; without a command what `mooring --help` prints."""

from __future__ import annotations

import argparse
import sys
from typing import Final

from mooring.cli import options
from mooring.cli.commands import parser_of, refuse_unknown
from mooring.cli.output import print_json

NAME: Final = "help"
HELP: Final = "print the arguments of a command"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument("about", metavar="CMD", nargs="?", help="a command (without it: all commands)")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the help of a command. BadUsage, with the nearest command, for one that does not exist."""
    about, parser = arguments.about, parser_of(arguments.all_commands)
    if about is not None:
        refuse_unknown(about, parser.commands)
    text = (parser if about is None else parser.commands[about]).format_help()
    if arguments.json:
        print_json({"command": about, "text": text})
    else:
        sys.stdout.write(text)
