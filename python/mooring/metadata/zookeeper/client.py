"""Makes kazoo's client from the settings, and ends it within a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id, Permissions

from mooring.metadata.zookeeper.options import Acl, ZkSettings

_PERMISSION_BITS = {
    "c": Permissions.CREATE,
    "d": Permissions.DELETE,
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "a": Permissions.ADMIN,
}


Credentials = tuple[int, bytes]
"""A session's number and password. Any process that has them can continue the session, so they are a secret."""


def new_client(
    settings: ZkSettings, on_session_seconds: Callable[[float], None], resume: Credentials | None = None
) -> KazooClient:
    """A client that is not started yet. Once started it tries to connect until it is stopped.

    `on_session_seconds` is called with the session timeout that the servers grant. With `resume` the client continues
    the session of a process that has died, if that session has not expired.
    """
    retry = {"max_tries": -1, "delay": settings.retry_delay_seconds, "max_delay": settings.retry_max_delay_seconds}
    client = KazooClient(
        hosts=settings.hosts,
        timeout=settings.session_timeout_seconds,
        client_id=resume,
        connection_retry=KazooRetry(**retry),
        default_acl=[_as_kazoo(entry) for entry in settings.acl] if settings.acl else None,
        auth_data=list(settings.auth),
        sasl_options=dict(settings.sasl) or None,
        logger=_quiet_logger(),
        **settings.tls,
    )
    _report_session_seconds(client, on_session_seconds)
    return client


def end_client(client: KazooClient, wait_seconds: float) -> None:
    """Stop a client, and wait for this many seconds. It ends in the background if a silent server delays it."""

    def stop() -> None:
        try:
            client.stop()
            client.close()
        except Exception as error:  # the servers end the session by themselves
            logging.getLogger("mooring.metadata").debug("a ZooKeeper session did not end well: %r", error)

    ending = threading.Thread(target=stop, name="mooring-zookeeper-end", daemon=True)
    ending.start()
    ending.join(wait_seconds)


def _report_session_seconds(client: Any, on_session_seconds: Callable[[float], None]) -> None:
    """Wrap kazoo's private `_connect`: kazoo keeps the granted session timeout in a local variable of that function.

    `_connect` returns two thirds of the timeout, in milliseconds, as the time to wait for an answer.
    """
    connect = client._connection._connect

    def connect_and_report(*args: Any) -> Any:
        read_timeout, connect_timeout = connect(*args)
        on_session_seconds(read_timeout * 1.5 / 1000)
        return read_timeout, connect_timeout

    client._connection._connect = connect_and_report


def _as_kazoo(entry: Acl) -> ACL:
    return ACL(sum(_PERMISSION_BITS[letter] for letter in set(entry.permissions)), Id(entry.scheme, entry.id))


def _quiet_logger() -> logging.Logger:
    """A logger that lets only errors pass: kazoo's debug lines hold credentials and values."""
    logger = logging.getLogger("mooring.metadata.zookeeper.kazoo")
    if not logger.filters:
        logger.addFilter(lambda record: record.levelno >= logging.ERROR)
    return logger
