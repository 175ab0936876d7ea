"""`mooring container-status`: how far a request is."""

from __future__ import annotations

import argparse
from typing import Final
from uuid import UUID

from mooring.cli import options
from mooring.cli.application.life import ApplicationLife
from mooring.cli.application.requests import application_of, how_far
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.output import print_json
from mooring.cli.records import CommandRecords

NAME: Final = "container-status"
HELP: Final = "show how far a request is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_metadata(parser)
    options.add_processor(parser, "fail if the request is for another processor", is_required=False)
    parser.add_argument("--uuid", metavar="UUID", required=True, help="the request, as place-container shows it")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Show how far a request is. CommandFailed when it is not there, or about another processor."""
    uuid = _uuid(arguments.uuid)
    records = CommandRecords.named_by(arguments)
    status = records.status()
    answer = records.client().container_status(uuid)
    if answer is None:
        raise CommandFailed(
            f"there is no request {uuid} in {records.place}: it never was, was for another deployment, or is long done"
        )
    processor = answer.request.processor_id
    if arguments.processor_id is not None and processor not in ("", arguments.processor_id):
        raise CommandFailed(f"request {uuid} is about processor {processor}, not {arguments.processor_id}")
    if arguments.json:
        print_json(answer.as_json())
    else:
        text = "" if answer.status_code.is_final else how_far(status, uuid)
        print(f"{answer.status_code.value}: {text or answer.response_message}")
        life = ApplicationLife(records, None)
        if not answer.status_code.is_final and life.liveness(life.newest(status)).is_given_up:
            print(f"nobody acts on it any more: {application_of(records, status)} {life.liveness(status).in_words}")


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        expected = "expected a uuid such as 88b0d30c-d518-4307-9e8e-c8529eb30f04, as place-container shows it"
        raise BadUsage(f"--uuid {text}: {expected}") from None
