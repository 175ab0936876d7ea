"""`mooring place-container`, `drain-host`, `control-standby` and the like: requests to a running application."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from mooring.cli.exits import BadUsage, CommandFailed, CommandTimedOut
from mooring.cli.output import ProgressLine, print_json
from mooring.cli.records import Records
from mooring.client import MooringClient
from mooring.client.liveness import Life, Liveness, liveness_of
from mooring.errors import InvalidMessageError
from mooring.placement import ContainerPlacementResponseMessage, StandbyAction, StatusCode
from mooring.settings.notation import format_duration, parse_typed_duration_ms


def run_control_standby(arguments: argparse.Namespace) -> None:
    """Ask, and wait for the end when that is asked for.

    CommandFailed when it ended badly, CommandTimedOut when it has not ended in time.
    """
    what = f"{arguments.action} the standbys of processor {arguments.processor_id}"
    action = StandbyAction(arguments.action.upper())
    _ask(arguments, what, lambda client, at: client.control_standby(arguments.processor_id, action, at))


def run_place_container(arguments: argparse.Namespace) -> None:
    """Ask, and wait for the end when that is asked for.

    CommandFailed when it ended badly, CommandTimedOut when it has not ended in time.
    """
    id, destination = arguments.processor_id, arguments.destination_host
    expiry = arguments.request_expiry
    expiry_ms = None if expiry is None else duration_ms("--request-expiry", expiry, "10s")
    _ask(
        arguments,
        f"place processor {id} on {destination}",
        lambda client, at: client.place_container(id, destination, at, expiry_ms),
    )


def run_drain_host(arguments: argparse.Namespace) -> None:
    """Ask, and wait for the end when that is asked for. As `run_place_container` for the rest."""
    host = arguments.host
    _ask(arguments, f"drain host {host}", lambda client, at: client.drain_host(host, at))


def run_open_host(arguments: argparse.Namespace) -> None:
    """Ask, and wait for the end when that is asked for. As `run_place_container` for the rest."""
    host = arguments.host
    _ask(arguments, f"open host {host}", lambda client, at: client.open_host(host, at))


def _ask(arguments: argparse.Namespace, what: str, write: Callable[[MooringClient, str], UUID]) -> None:
    """Write a request for a deployment, and show how far it is; `what` is it in words."""
    timeout_ms = duration_ms("--timeout", arguments.timeout, "60s")
    records = Records.named_by(arguments)
    status = records.status()
    deployment = arguments.deployment_id or application_of(records, status)
    refuse_ended(status, arguments.deployment_id)
    client = records.client()
    try:
        uuid = write(client, deployment)
    except InvalidMessageError as fault:
        raise BadUsage(f"{arguments.command}: {fault}") from fault
    progress = ProgressLine(time.monotonic)
    if not arguments.json:
        progress.say(f"request {uuid}: {what}")
    if not arguments.wait:
        answer = client.container_status(uuid)
        if arguments.json and answer is not None:
            print_json(answer.as_json())
        return

    def heard(news: ContainerPlacementResponseMessage) -> None:
        if not arguments.json:
            progress.say(f"{news.status_code.value}: {news.response_message}")

    def show_how_far() -> None:
        """By the status, which the agent writes once a second. CommandFailed when it says that nobody will answer."""
        now = records.status_if_any()
        refuse_ended(now, arguments.deployment_id)
        how_far = "" if arguments.json else _how_far(now, uuid)
        if how_far:
            progress.show(how_far)

    with progress:
        answer = client.wait(uuid, timeout_ms / 1000, heard, show_how_far)
    if arguments.json and answer is not None:
        print_json(answer.as_json())
    _refuse_unless_done(uuid, answer, deployment, f"{format_duration(timeout_ms)}{_silence(records.status_if_any())}")


def run_container_status(arguments: argparse.Namespace) -> None:
    """Show how far a request is. CommandFailed when it is not there, or about another processor."""
    uuid = _uuid(arguments.uuid)
    records = Records.named_by(arguments)
    status = records.status()
    answer = records.client().container_status(uuid)
    if answer is None:
        raise CommandFailed(
            f"there is no request {uuid} in {records.place}: it never was, was for another deployment, or is long done"
        )
    about = answer.request.processor_id
    if arguments.processor_id is not None and about not in ("", arguments.processor_id):
        raise CommandFailed(f"request {uuid} is about processor {about}, not {arguments.processor_id}")
    if arguments.json:
        print_json(answer.as_json())
    else:
        how_far = "" if answer.status_code.is_final else _how_far(status, uuid)
        print(f"{answer.status_code.value}: {how_far or answer.response_message}")
        if not answer.status_code.is_final and is_given_up(status):
            print(f"nobody acts on it any more: {application_of(records, status)} {_liveness(status).in_words}")


def _how_far(status: Mapping[str, Any], uuid: UUID) -> str:
    """What a status, which the agent writes once a second, says of a request; empty when nothing."""
    shown = status.get("requests", [])
    return next((f"{one['message']}" for one in shown if one.get("uuid") == str(uuid) and one.get("message")), "")


def _refuse_unless_done(
    uuid: UUID, answer: ContainerPlacementResponseMessage | None, deployment: str, waited: str
) -> None:
    if answer is None:
        raise CommandFailed(f"request {uuid} was removed: {deployment} is not the application that runs")
    if not answer.status_code.is_final:
        raise CommandTimedOut(f"request {uuid} is {answer.status_code.value} after {waited}; it may still be done")
    if answer.status_code is not StatusCode.SUCCEEDED:
        raise CommandFailed(f"request {uuid} is {answer.status_code.value}: {answer.response_message}")


def application_of(records: Records, status: dict[str, Any]) -> str:
    """The application that a status is of. CommandFailed when it names none."""
    application = status.get("application")
    if not isinstance(application, str) or not application:
        raise CommandFailed(f"the status in {records.place} names no application: give --deployment-id")
    return application


def refuse_ended(status: Mapping[str, Any], asked: str | None) -> None:
    """CommandFailed where nobody would act on a request: the application has ended, or was silent for too long.

    `asked` is the application that was named: one that the status is not of may be about to start, and one that is
    silent may be asked all the same.
    """
    application, liveness = status.get("application"), _liveness(status)
    if asked not in (None, application) or not liveness.is_given_up:
        return
    if liveness.life is Life.ENDED:
        raise CommandFailed(f"{application} {liveness.in_words}: nobody would act on this")
    if asked is None:
        raise CommandFailed(
            f"{application} is {liveness.in_words}: nobody would act on this; if it runs all the same, say"
            f" --deployment-id {application}"
        )


def is_given_up(status: Mapping[str, Any]) -> bool:
    """Whether nobody acts on requests any more, as far as the status tells."""
    return _liveness(status).is_given_up


def _liveness(status: Mapping[str, Any]) -> Liveness:
    return liveness_of(status, time.time_ns() // 1_000_000)


def _silence(status: Mapping[str, Any]) -> str:
    """A hint when nobody has written the status for long."""
    liveness = _liveness(status)
    return "" if liveness.life is Life.ALIVE else f" ({liveness.in_words})"


def duration_ms(option: str, text: str, usual: str) -> int:
    """A duration given to an option, in milliseconds. BadUsage when it is none, or names no unit."""
    try:
        return parse_typed_duration_ms(text)
    except ValueError:
        bare = text.strip()
        near = f"{int(bare)}s" if bare.isascii() and bare.isdigit() else usual
        raise BadUsage(
            f"{option} {text}: expected a duration with its unit, such as {usual}; nearest: {near}"
        ) from None


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        expected = "expected a uuid such as 88b0d30c-d518-4307-9e8e-c8529eb30f04, as place-container shows it"
        raise BadUsage(f"--uuid {text}: {expected}") from None
