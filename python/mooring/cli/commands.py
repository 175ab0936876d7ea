"""What a command is, and the parser that is made from all commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, Protocol

import mooring
from mooring.cli.exits import BadUsage
from mooring.errors import nearest

_OPTIONS_OF_ALL = ("help", "version")


class Command(Protocol):
    """A module of this folder: one command, its arguments, and what it does."""

    @property
    def NAME(self) -> str:
        """What a user types."""

    @property
    def HELP(self) -> str:
        """One line about it, for `mooring --help`."""

    @property
    def add_arguments(self) -> Callable[[argparse.ArgumentParser], None]:
        """Declare its arguments, on the parser that this is called with."""

    @property
    def run(self) -> Callable[[argparse.Namespace], None]:
        """Do it, and print the answer. MooringError when it fails; its class decides the exit code."""


class Parser(argparse.ArgumentParser):
    """Raises BadUsage instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse for what it does not understand."""
        raise BadUsage(f"{message}; see {self.prog} --help")


def parse(arguments: Sequence[str], commands: Sequence[Command]) -> argparse.Namespace:
    """The arguments, with `run` to run them. BadUsage for what cannot be understood; exits by itself after `--help`."""
    parser, parsers = parser_of(commands)
    _refuse_unknown_command(arguments, list(parsers))
    parsed, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        if unknown[0] in {"--json", "--metadata"}:
            raise BadUsage(
                f"{unknown[0]} stands before {parsed.command}; options go behind: mooring {parsed.command} {unknown[0]}"
            )
        known = sorted(parsers[parsed.command]._option_string_actions)
        expected = f"expected one of {', '.join(known)}{nearest(unknown[0], known)}"
        raise BadUsage(f"{parsed.command}: unknown argument {unknown[0]}; {expected}")
    return parsed


def parser_of(commands: Sequence[Command]) -> tuple[Parser, Mapping[str, argparse.ArgumentParser]]:
    """The parser of `mooring`, and that of each command by its name."""
    parser = Parser(prog="mooring", description=mooring.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mooring {mooring.__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for command in commands:
        its_own = parsers.add_parser(command.NAME, help=command.HELP, allow_abbrev=False)
        command.add_arguments(its_own)
        its_own.set_defaults(run=command.run)
    return parser, parsers.choices


def _refuse_unknown_command(arguments: Sequence[str], commands: Sequence[str]) -> None:
    word = next((argument for argument in arguments if not argument.startswith("-")), commands[0])
    if word not in commands:
        near = f"; nearest: --{word}" if word in _OPTIONS_OF_ALL else nearest(word, commands)
        raise BadUsage(f"there is no command {word!r}; expected one of {', '.join(commands)}{near}")
