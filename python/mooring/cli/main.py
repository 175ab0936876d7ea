"""The command `mooring`: gathers the commands, runs one, and turns its errors into an exit code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final

from mooring.cli import apps, demo, help, plan, status
from mooring.cli.application import (
    container_status,
    control_standby,
    drain,
    drain_host,
    open_host,
    place_container,
    states,
    stop,
)
from mooring.cli.checkpoint import export, history, pin, restore, verify
from mooring.cli.commands import Command, parse
from mooring.cli.exits import Exit, exit_of
from mooring.cli.machine import completion, conf, doctor, gc, jar
from mooring.errors import MooringError

COMMANDS: Final[tuple[Command, ...]] = (
    demo,
    status,
    doctor,
    apps,
    plan,
    place_container,
    drain_host,
    open_host,
    drain,
    stop,
    control_standby,
    container_status,
    conf,
    jar,
    gc,
    states,
    history,
    restore,
    pin,
    verify,
    export,
    completion,
    help,
)
"""In the order of `mooring --help`."""

_MOST_LINES = 3
_NUMBER_OF_ERROR = re.compile(r"\[Errno \d+\] ")
INTERRUPTED = 130
"""The exit code that shells report for a command that Ctrl-C has ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 failed, 2 bad usage, 3 store out of reach, 4 timed out.

    5 means that a checkpoint has something that this version does not understand.
    """
    try:
        parsed = parse(sys.argv[1:] if arguments is None else arguments, COMMANDS)
        parsed.run(parsed)
        sys.stdout.flush()
    except MooringError as error:
        _print_error(str(error))
        return exit_of(error)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyspark":
            raise
        _print_error("this command needs PySpark, which is not installed here: pip install 'mooring[spark]'")
        return Exit.FAILED
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.DONE
    except OSError as error:  # no command has a message of its own for it
        file = f"{error.filename}: " if error.filename else ""
        _print_error(f"{file}{error.strerror or error}")
        return Exit.FAILED
    except KeyboardInterrupt:
        print("mooring: interrupted", file=sys.stderr)
        return INTERRUPTED
    return Exit.DONE


def _print_error(message: str) -> None:
    """Print its first three lines: in an error of Spark the stack of the JVM follows them."""
    lines = [_NUMBER_OF_ERROR.sub("", line.rstrip()) for line in message.splitlines() if line.strip()]
    print("mooring: " + "\n".join(lines[:_MOST_LINES]), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
