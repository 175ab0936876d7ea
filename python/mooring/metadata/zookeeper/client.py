"""Kazoo's client, made from settings and ended without waiting for ever."""

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
"""A session's number and password: who has them can go on with the session. A secret."""


def new_client(
    settings: ZkSettings, on_session_seconds: Callable[[float], None], resume: Credentials | None = None
) -> KazooClient:
    """A client that is not started yet; it will try to connect for as long as it is there.

    With `resume` it goes on with a session that a dead process left, if that has not expired.
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
    _tell_session_seconds(client, on_session_seconds)
    return client


def end_client(client: KazooClient, wait_seconds: float) -> None:
    """Stop a client; in the background when that takes longer, as it does while a server is silent."""

    def stop() -> None:
        try:
            client.stop()
            client.close()
        except Exception as error:  # it is given up in any case; the session ends by itself
            logging.getLogger("mooring.metadata").debug("a ZooKeeper session did not end well: %r", error)

    ending = threading.Thread(target=stop, name="mooring-zookeeper-end", daemon=True)
    ending.start()
    ending.join(wait_seconds)


def _tell_session_seconds(client: Any, tell: Callable[[float], None]) -> None:
    """Servers may grant a shorter session than was asked for, and kazoo keeps that in a local variable.

    `_connect` returns two thirds of it, in milliseconds, as the time to wait for an answer.
    """
    connect = client._connection._connect

    def and_tell(*args: Any) -> Any:
        read_timeout, connect_timeout = connect(*args)
        tell(read_timeout * 1.5 / 1000)
        return read_timeout, connect_timeout

    client._connection._connect = and_tell


def _as_kazoo(entry: Acl) -> ACL:
    return ACL(sum(_PERMISSION_BITS[letter] for letter in set(entry.permissions)), Id(entry.scheme, entry.id))


def _quiet_logger() -> logging.Logger:
    """Kazoo's errors alone: debug lines hold credentials and values, warnings repeat ours."""
    logger = logging.getLogger("mooring.metadata.zookeeper.kazoo")
    if not logger.filters:
        logger.addFilter(lambda record: record.levelno >= logging.ERROR)
    return logger
