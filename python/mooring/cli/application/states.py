"""`mooring states`: the phases of a request, and what leads from one to the next."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli import options
from mooring.cli.output import print_json, table
from mooring.placement.lifecycle import TABLE

NAME: Final = "states"
HELP: Final = "print the phases of a request, and what leads from one to the next"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print one row for each step from a phase to the next."""
    if arguments.json:
        print_json(
            [
                {
                    "phase": row.phase.label,
                    "status": row.phase.status.value,
                    "happening": row.happening.value,
                    "next-phase": row.next.label,
                    "next-status": row.next.status.value,
                    "effect": row.effect,
                }
                for row in TABLE
            ]
        )
        return
    print(as_text())


def as_text(width: int | None = None) -> str:
    """The table for people, within so many characters: see `output.table`."""
    rows = [
        [
            f"{row.phase.label} ({row.phase.status.value})",
            row.happening.value,
            f"{row.next.label} ({row.next.status.value})",
            row.effect,
        ]
        for row in TABLE
    ]
    return table(["phase (status)", "happening", "next-phase (next-status)", "effect"], rows, width)
