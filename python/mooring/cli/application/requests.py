"""Sends a request to a running application and waits for the answer, for all commands that do so."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from mooring.cli.application.life import ApplicationLife
from mooring.cli.exits import BadUsage, CommandFailed, CommandTimedOut
from mooring.cli.output import ProgressLine, print_json
from mooring.cli.records import CommandRecords
from mooring.client import MooringClient
from mooring.errors import InvalidMessageError
from mooring.placement import ContainerPlacementResponseMessage, StatusCode
from mooring.settings.notation import format_duration


def ask(arguments: argparse.Namespace, what: str, write: Callable[[MooringClient, str], UUID]) -> None:
    """Write a request, and with `--wait` show its progress until its end. `what` is the request in words.

    BadUsage when the request makes no sense, CommandFailed when it failed, CommandTimedOut when it takes longer
    than `--timeout`.
    """
    timeout_ms: int = arguments.timeout
    records = CommandRecords.named_by(arguments)
    status = records.status()
    deployment = arguments.deployment_id or application_of(records, status)
    life = ApplicationLife(records, arguments.deployment_id)
    life.begin(status)
    client = records.client()
    try:
        uuid = write(client, deployment)
    except InvalidMessageError as fault:
        raise BadUsage(f"{arguments.command}: {fault}") from fault
    progress = ProgressLine(time.monotonic)
    if not arguments.json:
        progress.say(f"request {uuid}: {what}")
    if not arguments.wait:
        answer = client.container_status(uuid) if arguments.json else None
        if answer is not None:
            print_json(answer.as_json())
        return

    def show_response(response: ContainerPlacementResponseMessage) -> None:
        if not arguments.json:
            progress.say(f"{response.status_code.value}: {response.response_message}")

    def show_how_far() -> None:
        """Show what the status says of the request. CommandFailed when the application has ended meanwhile."""
        newest = records.status_if_any()
        life.raise_if_ended(newest)
        text = "" if arguments.json else how_far(newest, uuid)
        if text:
            progress.show_change(text)

    with progress:
        answer = client.wait(uuid, timeout_ms / 1000, show_response, show_how_far)
    if arguments.json and answer is not None:
        print_json(answer.as_json())
    waited = f"{format_duration(timeout_ms)}{life.silence(records.status_if_any())}"
    _raise_unless_succeeded(uuid, answer, deployment, waited)


def how_far(status: Mapping[str, Any], uuid: UUID) -> str:
    """The message about a request in a status; empty where the status has none. The agent writes it once a second."""
    shown = status.get("requests", [])
    messages = (entry.get("message") for entry in shown if entry.get("uuid") == str(uuid))
    return next((f"{message}" for message in messages if message), "")


def _raise_unless_succeeded(
    uuid: UUID, answer: ContainerPlacementResponseMessage | None, deployment: str, waited: str
) -> None:
    if answer is None:
        raise CommandFailed(f"request {uuid} was removed: {deployment} is not the application that runs")
    if not answer.status_code.is_final:
        raise CommandTimedOut(f"request {uuid} is {answer.status_code.value} after {waited}; it may still be done")
    if answer.status_code is not StatusCode.SUCCEEDED:
        raise CommandFailed(f"request {uuid} is {answer.status_code.value}: {answer.response_message}")


def application_of(records: CommandRecords, status: dict[str, Any]) -> str:
    """The id of the application that wrote a status. CommandFailed when the status names none."""
    application = status.get("application")
    if not isinstance(application, str) or not application:
        raise CommandFailed(f"the status in {records.place} names no application: give --deployment-id")
    return application
