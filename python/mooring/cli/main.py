"""The command `mooring`: arguments, sub-commands, exit codes. Each sub-command is a module of this folder."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import mooring
from mooring.cli import (
    apps,
    conf,
    demo,
    doctor,
    drain,
    drain_checkpoint,
    export,
    gc,
    history,
    jar,
    options,
    pin,
    placement,
    plan,
    restore,
    states,
    status,
    verify,
)
from mooring.cli.exits import BadUsage, Exit, exit_of
from mooring.errors import MooringError, nearest

_OPTIONS_OF_ALL = ("help", "version")
_MOST_LINES = 3
_NUMBER_OF_ERROR = re.compile(r"\[Errno \d+\] ")
INTERRUPTED = 130
"""What shells report of a command that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 failed, 2 bad usage, 3 store out of reach, 4 timed out.

    It is 5 where a checkpoint is not understood.
    """
    try:
        parsed = parse(sys.argv[1:] if arguments is None else arguments)
        parsed.run(parsed)
        sys.stdout.flush()
    except MooringError as error:
        _say(str(error))
        return exit_of(error)
    except BrokenPipeError:  # the reader had enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except OSError as error:  # what no command has words of its own for
        what = f"{error.filename}: " if error.filename else ""
        _say(f"{what}{error.strerror or error}")
        return Exit.FAILED
    except KeyboardInterrupt:
        print("mooring: interrupted", file=sys.stderr)
        return INTERRUPTED
    return Exit.DONE


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments, with `run` to run them. BadUsage for what cannot be understood; exits by itself after `--help`."""
    parser, commands = _parser()
    _refuse_unknown_command(arguments, list(commands))
    parsed, unknown = parser.parse_known_args(list(arguments))
    if unknown:
        if unknown[0] in {"--json", "--metadata"}:
            raise BadUsage(
                f"{unknown[0]} stands before {parsed.command}; options go behind: mooring {parsed.command} {unknown[0]}"
            )
        known = sorted(commands[parsed.command]._option_string_actions)
        expected = f"expected one of {', '.join(known)}{nearest(unknown[0], known)}"
        raise BadUsage(f"{parsed.command}: unknown argument {unknown[0]}; {expected}")
    return parsed


def _say(fault: str) -> None:
    """Three lines at most: an error of Spark's has the stack of its JVM behind it."""
    lines = [_NUMBER_OF_ERROR.sub("", line.rstrip()) for line in fault.splitlines() if line.strip()]
    print("mooring: " + "\n".join(lines[:_MOST_LINES]), file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """Raises BadUsage instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise BadUsage(f"{message}; see {self.prog} --help")


def _drain(arguments: argparse.Namespace) -> None:
    (drain.run if arguments.checkpoint is None else drain_checkpoint.run)(arguments)


def _parser() -> tuple[_Parser, Mapping[str, argparse.ArgumentParser]]:
    parser = _Parser(prog="mooring", description=mooring.__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"mooring {mooring.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)

    one = commands.add_parser(
        "demo", help="three hosts on this machine, a real stream, a kill, a restart", allow_abbrev=False
    )
    one.add_argument("--json", metavar="FILE", help="write what was measured into this file")
    store = one.add_mutually_exclusive_group()
    store.add_argument(
        "--with",
        dest="server",
        choices=["zookeeper", "kafka"],
        help="keep the records in a server that the demo starts (Kafka's jars are fetched once, 40 MB)",
    )
    store.add_argument(
        "--metadata", metavar="PLACE", help="keep the records in a store of yours, at a place that no job uses"
    )
    one.set_defaults(run=demo.run)

    one = commands.add_parser("status", help="hosts, executors, processors, tasks, state", allow_abbrev=False)
    options.add_metadata(one)
    one.set_defaults(run=status.run)

    one = commands.add_parser(
        "doctor", help="whether this machine has what Mooring needs, and what to do where not", allow_abbrev=False
    )
    options.add_metadata(one)
    options.add_local_store(one)
    one.set_defaults(run=doctor.run)

    one = commands.add_parser(
        "apps", help="the applications whose records lie at a place, and whether they run", allow_abbrev=False
    )
    one.add_argument(
        "place",
        metavar="PLACE",
        nargs="?",
        help="as --metadata of the other commands, or a directory above it, or a checkpoint (without it: the variable"
        " MOORING_METADATA)",
    )
    options.add_metadata_conf(one)
    one.set_defaults(run=apps.run)

    one = commands.add_parser(
        "plan", help="what would move if hosts came or went, or processors moved; changes nothing", allow_abbrev=False
    )
    options.add_metadata(one, has_own_checkpoint=True)
    one.add_argument(
        "--add-host", metavar="HOST", action="append", default=[], help="a host that comes; may be repeated"
    )
    one.add_argument(
        "--remove-host", metavar="HOST", action="append", default=[], help="a host that goes; may be repeated"
    )
    one.add_argument(
        "--move", metavar="ID=HOST", action="append", default=[], help="a processor that moves; may be repeated"
    )
    one.add_argument(
        "--checkpoint",
        metavar="[QUERY=]CHECKPOINT",
        action="append",
        default=[],
        help="of one query: the Delta catalogue in it tells how large its tasks are where the status does not, as"
        " before the query has run on these hosts; starts a Spark on this machine; may be repeated",
    )
    options.add_catalog_table(one)
    one.set_defaults(run=plan.run)

    one = commands.add_parser(
        "place-container", help="move one processor to another host, or restart it", allow_abbrev=False
    )
    options.add_metadata(one)
    options.add_processor(one)
    one.add_argument(
        "--destination-host",
        metavar="HOST",
        required=True,
        help="where it is to go: a location as mooring status shows it, ANY_HOST, STANDBY (where copies of its tasks"
        " are) or LAST_SEEN (where it is: its executor is replaced, as by its own location)",
    )
    one.add_argument(
        "--request-expiry",
        metavar="TIME",
        help="for how long an executor is looked for there, or waited for after a restart (default: 60s; 120s)",
    )
    options.add_waiting(one, "10m")
    one.set_defaults(run=placement.run_place_container)

    one = commands.add_parser(
        "drain-host", help="move everything away from one host, and keep it empty", allow_abbrev=False
    )
    options.add_metadata(one)
    options.add_host(one)
    options.add_waiting(one, "10m")
    one.set_defaults(run=placement.run_drain_host)

    one = commands.add_parser(
        "open-host", help="let tasks and copies come to a host again that was drained", allow_abbrev=False
    )
    options.add_metadata(one)
    options.add_host(one)
    options.add_waiting(one, "60s")
    one.set_defaults(run=placement.run_open_host)

    one = commands.add_parser(
        "drain", help="stop the intake of queries, let out what they hold, and end them", allow_abbrev=False
    )
    options.add_metadata(one, has_own_checkpoint=True)
    one.add_argument("--query", metavar="NAME", help="the name or the id of the one that is meant (default: all)")
    one.add_argument(
        "--checkpoint",
        metavar="DIRECTORY",
        help="of a query that does not run: it is drained when it is started the next time, without any new input",
    )
    options.add_waiting(one, "10m")
    one.set_defaults(run=_drain)

    one = commands.add_parser("stop", help="end queries that keep their state for the next start", allow_abbrev=False)
    options.add_metadata(one)
    one.add_argument(
        "--mode",
        choices=list(drain.STOP_MODES),
        required=True,
        help="after the batch that runs, after all that has come in, or now, in the middle of a batch",
    )
    one.add_argument("--query", metavar="NAME", help="the name or the id of the one that is meant (default: all)")
    options.add_waiting(one, "10m")
    one.set_defaults(run=drain.run_stop)

    one = commands.add_parser(
        "control-standby", help="start or stop the standbys of one processor's tasks", allow_abbrev=False
    )
    options.add_metadata(one)
    options.add_processor(one)
    one.add_argument("action", choices=["start", "stop"], help="what is to become of the copies of its tasks")
    options.add_waiting(one, "60s")
    one.set_defaults(run=placement.run_control_standby)

    one = commands.add_parser("container-status", help="how far a request is", allow_abbrev=False)
    options.add_metadata(one)
    options.add_processor(one, is_required=False)
    one.add_argument("--uuid", metavar="UUID", required=True, help="the request, as place-container shows it")
    one.set_defaults(run=placement.run_container_status)

    one = commands.add_parser("conf", help="a sample configuration, with every setting", allow_abbrev=False)
    one.add_argument("--target", default="spark-submit", help="spark-submit (default), emr, databricks or kubernetes")
    one.set_defaults(run=conf.run)

    one = commands.add_parser("jar", help="the path of the plugin's jar, for --jars", allow_abbrev=False)
    one.set_defaults(run=jar.run)

    one = commands.add_parser("gc", help="remove local state that no checkpoint owns any more", allow_abbrev=False)
    one.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    options.add_local_store(one)
    one.set_defaults(run=gc.run)

    one = commands.add_parser("states", help="what may become of a request, as a table", allow_abbrev=False)
    one.set_defaults(run=states.run)

    one = commands.add_parser(
        "history", help="the batches of a checkpoint, and to which of them its query can go back", allow_abbrev=False
    )
    options.add_checkpoint(one)
    one.add_argument(
        "--catalog",
        action="store_true",
        help="with what the Delta catalogue knows besides: older batches, and keys; starts a Spark on this machine",
    )
    options.add_catalog_table(one)
    one.set_defaults(run=history.run)

    one = commands.add_parser(
        "restore", help="a query that does not run starts again as of an earlier batch", allow_abbrev=False
    )
    options.add_checkpoint(one)
    goal = one.add_mutually_exclusive_group(required=True)
    goal.add_argument("--to-batch", metavar="N", type=int, help="the last batch that is to count; see mooring history")
    goal.add_argument(
        "--to-newest-whole", action="store_true", help="the newest batch after which all state is there and undamaged"
    )
    one.add_argument(
        "--into",
        metavar="NEW_CHECKPOINT",
        help="make a checkpoint there, for a second run of the query, and leave this one as it is",
    )
    one.add_argument(
        "--new-file-sink",
        metavar="DIRECTORY",
        help="for a query with a file sink: make the log there that Spark wants of a sink which begins with a later"
        " batch; the query then writes into this directory",
    )
    one.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    one.add_argument(
        "--without-missing-input",
        action="store_true",
        help="also when input files of later batches are gone, which the query will not read again",
    )
    one.set_defaults(run=restore.run)

    one = commands.add_parser(
        "pin", help="a batch that can be gone back to for good, at the cost of a copy", allow_abbrev=False
    )
    options.add_checkpoint(one)
    one.add_argument("--batch", metavar="N", type=int, required=True, help="which; see mooring history")
    one.add_argument("--release", action="store_true", help="let go of it: the copy is removed")
    one.set_defaults(run=pin.run)

    one = commands.add_parser(
        "verify", help="whether the state in a checkpoint is whole and undamaged", allow_abbrev=False
    )
    options.add_checkpoint(one)
    one.add_argument("--all", action="store_true", help="of all batches that are left, not only of the newest one")
    one.set_defaults(run=verify.run)

    one = commands.add_parser(
        "export", help="the state of an operator as a Delta table, for audits or a changed query", allow_abbrev=False
    )
    options.add_checkpoint(one)
    one.add_argument("--to", metavar="TABLE", required=True, help="a path, or the name of a table in Spark's catalog")
    one.add_argument("--operator", metavar="ID", type=int, help="which of the query's operators, when it has several")
    one.add_argument("--batch", metavar="N", type=int, help="as of which batch (default: the newest)")
    one.add_argument("--join-side", choices=["left", "right"], help="which side of a join")
    one.add_argument("--state-variable", metavar="NAME", help="which variable of a transformWithState")
    one.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", default=[], help="a setting of the Spark that writes the table"
    )
    one.set_defaults(run=export.run)

    for name in (
        "export",
        "history",
        "pin",
        "restore",
        "verify",
        "doctor",
        "apps",
        "status",
        "plan",
        "place-container",
        "drain-host",
        "open-host",
        "drain",
        "stop",
        "control-standby",
        "container-status",
        "conf",
        "jar",
        "gc",
        "states",
    ):
        commands.choices[name].add_argument("--json", action="store_true", help="one JSON text instead of words")
    return parser, commands.choices


def _refuse_unknown_command(arguments: Sequence[str], commands: list[str]) -> None:
    word = next((argument for argument in arguments if not argument.startswith("-")), commands[0])
    if word not in commands:
        near = f"; nearest: --{word}" if word in _OPTIONS_OF_ALL else nearest(word, commands)
        raise BadUsage(f"there is no command {word!r}; expected one of {', '.join(commands)}{near}")


if __name__ == "__main__":
    sys.exit(main())
