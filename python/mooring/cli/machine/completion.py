"""`mooring completion SHELL`: a script that completes commands, options and values, for bash, zsh or fish.

The scripts are made from the parsers of the commands, so they are never behind them.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mooring.cli import options
from mooring.cli.commands import Parser, parser_of
from mooring.cli.output import print_json

NAME: Final = "completion"
HELP: Final = "print a script for bash, zsh or fish that completes this command"

_PATHS: Final = frozenset(
    {"CHECKPOINT", "DIR", "DIRECTORY", "FILE", "NEW_CHECKPOINT", "PLACE", "TABLE", "[QUERY=]CHECKPOINT"}
)
"""What `metavar` is where a value may be a path."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.add_argument(
        "shell", metavar="SHELL", choices=list(_SCRIPTS), help="bash, zsh or fish; the script's first lines say its use"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    text = _SCRIPTS[arguments.shell](parser_of(arguments.all_commands))
    if arguments.json:
        print_json({"shell": arguments.shell, "text": text})
    else:
        sys.stdout.write(text)


def bash(parser: Parser) -> str:
    """A function for bash, and the call that registers it."""
    cases = [line for name, of in parser.commands.items() for line in _bash_case(name, _arguments(of), parser)]
    return "\n".join(
        [
            '# For this shell: eval "$(mooring completion bash)". For all: put that line into ~/.bashrc.',
            *_BASH_HEAD,
            f'        "") words={_words(parser.commands)} flags={_words(_flags(_arguments(parser)))} ;;',
            *cases,
            *_BASH_TAIL,
        ]
    )


_BASH_HEAD: Final = (
    "_mooring() {",
    "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= words= flags= files= word",
    "    # bash splits --option=value into three words.",
    "    if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi",
    '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    "        if [[ $word != -* ]]; then command=$word; break; fi",
    "    done",
    '    case "$command" in',
)
_BASH_TAIL: Final = (
    "    esac",
    "    # Options are offered when one is begun, or when nothing else can follow.",
    "    if [[ $flags && ( $current == -* || -z $words$files ) ]]; then words=$flags files=; fi",
    '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
    "    if [[ $files ]]; then",
    "        compopt -o filenames 2>/dev/null",
    "        local IFS=$'\\n'",
    '        COMPREPLY+=($(compgen -f -- "$current"))',
    "    fi",
    "}",
    "complete -F _mooring mooring",
    "",
)


def _bash_case(command: str, arguments: list[argparse.Action], parser: Parser) -> Iterable[str]:
    """What follows a command: after an option its values, else options and the values that stand alone."""
    yield f"        {command})"
    yield '            case "$before" in'
    for action in arguments:
        if action.option_strings and _takes_value(action) and action.nargs != "?":
            offered = _bash_values(_values(action, parser), action)
            yield f"                {'|'.join(action.option_strings)}) {offered} ;;"
    alone = [action for action in arguments if not action.option_strings]
    words = [word for action in alone for word in _values(action, parser)]
    files = " files=1" if any(map(_is_path, alone)) else ""
    yield f"                *) words={_words(words)} flags={_words(_flags(arguments))}{files} ;;"
    yield "            esac ;;"


def _bash_values(values: Iterable[str], action: argparse.Action) -> str:
    return "files=1" if _is_path(action) else f"words={_words(values)}"


def _words(words: Iterable[str]) -> str:
    return shlex.quote(" ".join(words))


def zsh(parser: Parser) -> str:
    """A function for zsh, and the call that registers it."""
    commands = [_zsh_text(f"{name}:{help}") for name, help in _summaries(parser).items()]
    cases = [line for name, of in parser.commands.items() for line in _zsh_case(name, _arguments(of), parser)]
    return "\n".join(
        [
            "#compdef mooring",
            '# A file _mooring in a directory of $fpath; or, after compinit: eval "$(mooring completion zsh)".',
            "_mooring() {",
            "    local context state state_descr line",
            "    typeset -A opt_args",
            "    _arguments -C \\",
            *(f"        {_zsh_option(action, parser)} \\" for action in _arguments(parser) if action.option_strings),
            "        '1:command:->command' '*::argument:->argument'",
            "    case $state in",
            "        command)",
            "            local -a commands",
            "            commands=(",
            *(f"                {command}" for command in commands),
            "            )",
            "            _describe command commands ;;",
            "        argument)",
            "            case $words[1] in",
            *cases,
            "            esac ;;",
            "    esac",
            "}",
            'if [[ $funcstack[1] == _mooring ]]; then _mooring "$@"; else compdef _mooring mooring; fi',
            "",
        ]
    )


def _zsh_case(command: str, arguments: list[argparse.Action], parser: Parser) -> Iterable[str]:
    yield f"                {command})"
    yield "                    _arguments \\"
    given = [_zsh_option(a, parser) if a.option_strings else _zsh_argument(a, parser) for a in arguments]
    yield from (f"                        {line} \\" for line in given[:-1])
    yield f"                        {given[-1]} ;;"


def _zsh_option(action: argparse.Action, parser: Parser) -> str:
    """`--name[what it is for]:VALUE:(its values)`; one of several names is offered: the last, which is the long one."""
    name = action.option_strings[-1]
    often = "*" if isinstance(action, argparse._AppendAction) else ""
    value = ""
    if _takes_value(action):
        value = f"{':' if action.nargs == '?' else ''}:{_zsh_name(action)}:{_zsh_values(action, parser)}"
    return _zsh_text(f"{often}{name}[{_zsh_plain(_help(action))}]{value}")


def _zsh_argument(action: argparse.Action, parser: Parser) -> str:
    is_optional = ":" if action.nargs == "?" else ""
    return _zsh_text(f":{is_optional}{_zsh_name(action)}:{_zsh_values(action, parser)}")


def _zsh_values(action: argparse.Action, parser: Parser) -> str:
    return "_files" if _is_path(action) else f"({' '.join(_values(action, parser))})"


def _zsh_name(action: argparse.Action) -> str:
    return _zsh_plain(_metavar(action))


def _zsh_plain(text: str) -> str:
    """A text in which nothing has a meaning of its own for `_arguments`."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _zsh_text(text: str) -> str:
    return shlex.quote(text)


def fish(parser: Parser) -> str:
    """The calls that register each command and each option with fish."""
    lines = [
        "# A file ~/.config/fish/completions/mooring.fish; or: mooring completion fish | source",
        "complete -c mooring -f",
    ]
    none_yet = "-n __fish_use_subcommand"
    lines += [
        f"complete -c mooring {none_yet} -a {name} -d {_fish_text(help)}" for name, help in _summaries(parser).items()
    ]
    for action in _arguments(parser):
        lines += [f"complete -c mooring {none_yet}{_fish_flags(action)} -d {_fish_text(_help(action))}"] * bool(
            action.option_strings
        )
    for name, of in parser.commands.items():
        seen = f'complete -c mooring -n "__fish_seen_subcommand_from {name}"'
        for action in _arguments(of):
            values = f" -a {_fish_text(' '.join(_values(action, parser)))}" if _values(action, parser) else ""
            files = " -F" if _is_path(action) else ""
            if not action.option_strings:
                lines += [f"{seen}{values}{files}"]
                continue
            value = (" -r" if files or action.nargs == "?" else " -x") if _takes_value(action) else ""
            lines += [f"{seen}{_fish_flags(action)}{value}{files}{values} -d {_fish_text(_help(action))}"]
    return "\n".join([*lines, ""])


def _fish_flags(action: argparse.Action) -> str:
    return "".join(
        f" -l {option[2:]}" if option.startswith("--") else f" -s {option[1:]}" for option in action.option_strings
    )


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """All arguments of a parser but the command itself."""
    return [action for action in parser._actions if not isinstance(action, argparse._SubParsersAction)]


def _summaries(parser: Parser) -> Mapping[str, str]:
    """The line of `mooring --help` about each command, by its name."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {choice.dest: choice.help or "" for choice in commands._choices_actions}


def _flags(arguments: Iterable[argparse.Action]) -> list[str]:
    return [name for action in arguments for name in action.option_strings if name.startswith("--")]


def _takes_value(action: argparse.Action) -> bool:
    return action.nargs != 0


def _values(action: argparse.Action, parser: Parser) -> list[str]:
    """What may be given; empty where that can not be listed."""
    if action.metavar == "CMD":
        return list(parser.commands)
    return [] if action.choices is None else [str(choice) for choice in action.choices]


def _is_path(action: argparse.Action) -> bool:
    return _takes_value(action) and action.metavar in _PATHS


def _metavar(action: argparse.Action) -> str:
    return str(action.metavar or action.dest)


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": "mooring"}


_SCRIPTS: Final[Mapping[str, Callable[[Parser], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
