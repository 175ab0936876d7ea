"""What a command is, and the parser that is made from all commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn, Protocol

import mooring
from mooring.cli.exits import BadUsage
from mooring.errors import nearest

_OPTIONS_OF_ALL = ("version",)


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
        """Do it, and print the answer. MooringError when it fails; its class decides the exit code.

        The namespace has the values of its arguments, and under `all_commands` the commands of `mooring`.
        """


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises BadUsage, where argparse itself ends the process."""

    commands: Mapping[str, argparse.ArgumentParser]
    """The parser of each command, by its name. Only the parser of `mooring` has it."""

    def error(self, message: str) -> NoReturn:
        """Argparse calls this for arguments that it does not accept."""
        raise BadUsage(f"{message}; see {self.prog} --help")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Replaces a method of argparse, to name the nearest choice."""
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            name = action.option_strings[0] if action.option_strings else action.metavar or action.dest
            raise BadUsage(f"{name} {value}: expected one of {', '.join(choices)}{nearest(str(value), choices)}")


def parse(arguments: Sequence[str], commands: Sequence[Command]) -> argparse.Namespace:
    """The arguments of one command, with its `run`. BadUsage for what is wrong; ends the process after `--help`."""
    typed = [argument for argument in arguments if not argument.startswith("-")]
    if typed:
        refuse_unknown(typed[0], [command.NAME for command in commands])
    # Those of all commands take longer to declare than many a command runs.
    parser = parser_of([command for command in commands if not typed or typed[0] == command.NAME])
    parsed, unknown = parser.parse_known_args(list(arguments))
    parsed.all_commands = commands
    if unknown:
        if unknown[0] in {"--json", "--metadata"}:
            raise BadUsage(
                f"{unknown[0]} stands before {parsed.command}; options go behind: mooring {parsed.command} {unknown[0]}"
            )
        known = sorted(parser.commands[parsed.command]._option_string_actions)
        expected = f"expected one of {', '.join(known)}{nearest(unknown[0], known)}"
        raise BadUsage(f"{parsed.command}: unknown argument {unknown[0]}; {expected}")
    return parsed


def parser_of(commands: Sequence[Command]) -> Parser:
    """The parser of `mooring`, with a parser for each of these commands."""
    parser = Parser(prog="mooring", description=mooring.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mooring {mooring.__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for command in commands:
        its_own = parsers.add_parser(command.NAME, help=command.HELP, allow_abbrev=False)
        command.add_arguments(its_own)
        its_own.set_defaults(run=command.run)
    parser.commands = parsers.choices
    return parser


def refuse_unknown(command: str, commands: Collection[str]) -> None:
    """BadUsage, with the nearest command, for one that does not exist."""
    if command not in commands:
        near = f"; nearest: --{command}" if command in _OPTIONS_OF_ALL else nearest(command, commands)
        raise BadUsage(f"there is no command {command!r}; expected one of {', '.join(commands)}{near}")
