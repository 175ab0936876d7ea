"""The arguments that several commands share."""

from __future__ import annotations

import argparse
from typing import Final

from mooring.cli.durations import duration

LOCAL_STORE_VARIABLE: Final = "MOORING_LOCAL_STORE_DIR"


def add_json(parser: argparse._ActionsContainer) -> None:
    """`--json`: the answer for programs."""
    parser.add_argument("--json", action="store_true", help="one JSON text instead of words")


def add_local_store(parser: argparse.ArgumentParser) -> None:
    """`--local-store`: where executors of this host keep state."""
    parser.add_argument(
        "--local-store",
        metavar="DIR",
        help=f"the local store of this host; else the variable {LOCAL_STORE_VARIABLE}, else the default directory",
    )


def add_catalog_table(parser: argparse.ArgumentParser) -> None:
    """`--catalog-table`: where the catalogue is."""
    parser.add_argument(
        "--catalog-table",
        metavar="TABLE",
        help="the catalogue, where spark.mooring.checkpoint.catalog.table has put it (default: in the checkpoint)",
    )


def add_metadata(parser: argparse.ArgumentParser, has_own_checkpoint: bool = False) -> None:
    """`--metadata` and what may stand for it; without `--checkpoint` where the command has one of its own."""
    if not has_own_checkpoint:
        parser.add_argument(
            "--checkpoint",
            dest="of_checkpoint",
            metavar="DIRECTORY",
            help="in place of --metadata: the checkpoint of a query; the records are looked for in _mooring beside it",
        )
    parser.add_argument(
        "--metadata",
        metavar="PLACE",
        help="where the agent keeps its records: spark.mooring.metadata (a directory, zk://…, kafka://…), else"
        " _mooring in spark.sql.streaming.checkpointLocation, else _mooring/<application> beside the first query's"
        " checkpoint"
        " (without the option: the variable MOORING_METADATA)",
    )
    add_metadata_conf(parser)


def add_metadata_conf(parser: argparse.ArgumentParser) -> None:
    """`--metadata-conf`: a file with the place, and what it takes to get in."""
    parser.add_argument(
        "--metadata-conf",
        metavar="FILE",
        help="a file such as spark-defaults.conf; used are spark.mooring.metadata and spark.mooring.metadata.* in"
        " it (the place, TLS, passwords)",
    )


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """The checkpoint that a command is about."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the checkpoint directory of one query, mounted here")


def add_processor(parser: argparse.ArgumentParser, is_required: bool = True) -> None:
    """`--processor-id`."""
    what = "a processor, as mooring status shows it" if is_required else "fails when the request is about another one"
    parser.add_argument("--processor-id", metavar="ID", required=is_required, help=what)


def add_host(parser: argparse.ArgumentParser) -> None:
    """The host that a command is about."""
    parser.add_argument("host", metavar="HOST", help="a location, as mooring status shows it")


def add_query(parser: argparse.ArgumentParser) -> None:
    """`--query`: one query of the application."""
    parser.add_argument("--query", metavar="NAME", help="the name or the id of the one that is meant (default: all)")


def add_waiting(parser: argparse.ArgumentParser, timeout: str) -> None:
    """Whom a request is for, and how long it is waited for."""
    parser.add_argument(
        "--deployment-id",
        metavar="ID",
        help="the Spark application that is to act on it; by default the one that mooring status shows",
    )
    parser.add_argument("--wait", action="store_true", help="until it is done or has failed")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=duration("--timeout", timeout),
        default=timeout,
        help="for how long --wait waits at most, with its unit (default: %(default)s)",
    )
