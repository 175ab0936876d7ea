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
        help=f"the local store of this host (default: the variable {LOCAL_STORE_VARIABLE}, else the plugin's default)",
    )


def add_catalog_table(parser: argparse.ArgumentParser) -> None:
    """`--catalog-table`: the catalogue, where it is not in the checkpoint."""
    parser.add_argument(
        "--catalog-table",
        metavar="TABLE",
        help="the catalogue, as spark.mooring.checkpoint.catalog.table names it (default: the one in the checkpoint)",
    )


def add_metadata(parser: argparse.ArgumentParser, has_own_checkpoint: bool = False) -> None:
    """`--metadata`, and the other options that name the records.

    A command that `has_own_checkpoint` declares its option `--checkpoint` itself.
    """
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
    """`--metadata-conf`: a file with the place of the records, and the passwords and certificates for it."""
    parser.add_argument(
        "--metadata-conf",
        metavar="FILE",
        help="a file such as spark-defaults.conf; only spark.mooring.metadata and spark.mooring.metadata.* in it are"
        " read (the place, TLS, passwords)",
    )


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """The checkpoint of one query."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the checkpoint directory of one query, mounted here")


def add_processor(
    parser: argparse.ArgumentParser, meaning: str = "a processor, as mooring status shows it", is_required: bool = True
) -> None:
    """`--processor-id`."""
    parser.add_argument("--processor-id", metavar="ID", required=is_required, help=meaning)


def add_host_request(parser: argparse.ArgumentParser, timeout: str) -> None:
    """All arguments of a request for one host, with the longest time that the command waits for its end."""
    add_metadata(parser)
    parser.add_argument("host", metavar="HOST", help="a location, as mooring status shows it")
    add_waiting(parser, timeout)
    add_json(parser)


def add_query(parser: argparse.ArgumentParser) -> None:
    """`--query`: one query of the application."""
    parser.add_argument("--query", metavar="NAME", help="one query, by its name or its id (default: all queries)")


def add_waiting(parser: argparse.ArgumentParser, timeout: str) -> None:
    """The application that a request is for, and how long the command waits for its end."""
    parser.add_argument(
        "--deployment-id",
        metavar="ID",
        help="the Spark application that the request is for (default: the one that mooring status shows)",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the request is done or has failed")
    parser.add_argument(
        "--timeout",
        metavar="TIME",
        type=duration("--timeout", timeout),
        default=timeout,
        help="the longest time that --wait waits, with its unit (default: %(default)s)",
    )
