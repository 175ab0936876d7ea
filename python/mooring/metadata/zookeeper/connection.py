"""One session with ZooKeeper: requests sent many at once, their errors made ours, and the session watched.

Here, and nowhere else in the store, errors of kazoo become Mooring's. Kazoo's own threads only set flags: nothing that
waits for ZooKeeper runs on them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    ZookeeperError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, KeeperState

from mooring.errors import MetadataStoreError, MetadataStoreUnavailable
from mooring.metadata.zookeeper.client import Credentials, end_client, new_client
from mooring.metadata.zookeeper.diagnosis import why_unreachable
from mooring.metadata.zookeeper.options import ZkSettings

Request = Callable[[Any], Any]
"""Sends one request through a KazooClient, and returns kazoo's AsyncResult."""

SessionListener = Callable[[bool], None]
"""Called on kazoo's thread with whether there is a live connection: set a flag, and no more."""

_LOST = (
    ConnectionLoss,
    SessionExpiredError,
    ConnectionClosedError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionMovedError,
)
_TO_BE_EXPECTED = (
    NoNodeError,
    NodeExistsError,
    NotEmptyError,
    BadVersionError,
    RolledBackError,  # what the other operations of a refused transaction say
    RuntimeInconsistency,
)
_WINDOW = 100


class NoAnswer(Exception):
    """The connection broke, or no answer came: what was sent may have been done. Never leaves this package."""


class RetryDeadline:
    """How long to go on trying. It begins anew with every answer: a long list of requests may take its time."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now = seconds, now
        self.renew()

    def renew(self) -> None:
        """Something was answered."""
        self._end = self._now() + self._seconds

    @property
    def seconds_left(self) -> float:
        """Seconds; 0 when it is at its end."""
        return max(0.0, self._end - self._now())


class ZkConnection:
    """A session that is begun with the first request and begun anew when it was lost, until `close`."""

    def __init__(self, settings: ZkSettings, resume: Credentials | None = None) -> None:
        """`resume`: the session of a process that is dead, to go on with if it has not expired."""
        self.settings = settings
        self._resume = resume
        self.place = settings.place
        self._lock = threading.Lock()
        self._news = threading.Condition()
        self._client: KazooClient | None = None
        self._connected = False
        self._refused = False
        self._closed = False
        self._listeners: list[SessionListener] = []
        self._session_seconds = settings.session_timeout_seconds

    def new_deadline(self) -> RetryDeadline:
        """A new span of `retry.deadline`."""
        return RetryDeadline(self.settings.deadline_seconds)

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Tell `listener` when the connection is there and when it is not; returns how to end that."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    @property
    def session(self) -> int | None:
        """The number of the session; None without a live connection."""
        client = self._client
        found = client.client_id if client is not None else None
        return None if found is None else int(found[0])

    @property
    def credentials(self) -> Credentials | None:
        """What another process needs to go on with the session when this one is dead; a secret."""
        client = self._client
        found = client.client_id if client is not None and self._connected else None
        return None if found is None else (int(found[0]), bytes(found[1]))

    @property
    def session_seconds(self) -> float:
        """How long the servers keep the session of a client that is silent: what they granted, not what was asked."""
        return self._session_seconds

    @property
    def is_connected(self) -> bool:
        """Whether there is a live connection, as far as is known."""
        return self._connected

    def attempt(self, requests: Sequence[Request], deadline: RetryDeadline, window: int = _WINDOW) -> list[Any]:
        """Send once, `window` at a time, and wait for all.

        An answer that a node is there, is not there or has another version is in its place, as kazoo's error. Any other
        refusal (no permission) raises MetadataStoreUnavailable, and so does the lack of a connection: then nothing was
        sent. `NoAnswer` when something was sent and not answered.
        """
        answers: list[Any] = []
        for start in range(0, len(requests), window):
            client = self._wait_until_connected(deadline)
            sent = [request(client) for request in requests[start : start + window]]
            answers += [self._answer(one, deadline) for one in sent]
        return answers

    def ask(
        self, requests: Sequence[Request], deadline: RetryDeadline | None = None, window: int = _WINDOW
    ) -> list[Any]:
        """`attempt`, again and again: for requests that may be repeated. MetadataStoreUnavailable in the end."""
        deadline = deadline or self.new_deadline()
        while True:
            try:
                return self.attempt(requests, deadline, window)
            except NoAnswer as no_answer:
                self.pause(deadline, no_answer)

    def pause(self, deadline: RetryDeadline, no_answer: NoAnswer) -> None:
        """Wait a moment before another try; MetadataStoreUnavailable when the deadline has passed."""
        if self._closed or not deadline.seconds_left:
            raise self.unavailable(str(no_answer)) from no_answer
        time.sleep(min(self.settings.retry_delay_seconds, deadline.seconds_left))

    def unavailable(self, what: str) -> MetadataStoreError:
        """The error for a connection that is not there, with what can be found out about the servers."""
        if self._closed:
            return MetadataStoreError(f"this connection to {self.place} is closed")
        tls = bool(self.settings.tls.get("use_ssl"))
        return MetadataStoreUnavailable(f"{self.place}: {what}; {why_unreachable(self.settings.hosts, tls)}")

    def create_missing(self, paths: Sequence[str], deadline: RetryDeadline) -> None:
        """Make nodes that are missing, each after its parents; what is there may be under anybody's control."""
        above = {at for path in paths for at in _and_its_parents(path)}
        wanted = sorted(above)  # a parent sorts before what is below it
        there = self.ask([partial(_exists, path=at) for at in wanted], deadline)
        for at, stat in zip(wanted, there, strict=True):
            if stat is None:
                self.ask([partial(_create_empty, path=at)], deadline)

    def close(self) -> None:
        """End the session, and with it what lives only as long: its ephemeral nodes."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        with self._news:
            self._connected = False
            self._news.notify_all()
        if client is not None:
            end_client(client, wait_seconds=2.0)

    def _answer(self, sent: Any, deadline: RetryDeadline) -> Any:
        try:
            answer = sent.get(timeout=max(deadline.seconds_left, 0.001))
        except KazooTimeoutError:
            raise NoAnswer("no answer came in time") from None
        except _LOST as error:
            raise NoAnswer(f"the connection was lost ({type(error).__name__})") from error
        except ZookeeperError as error:
            self._raise_if_final(error)
            answer = error
        except Exception as error:  # whatever else kazoo's threads put there: an answer that they did not understand
            raise NoAnswer(f"the client failed ({type(error).__name__})") from error
        for part in answer if isinstance(answer, list) else ():
            self._raise_if_final(part)
        deadline.renew()
        return answer

    def _raise_if_final(self, answer: Any) -> None:
        if isinstance(answer, AuthFailedError):
            raise MetadataStoreUnavailable(self._refusal()) from answer
        if isinstance(answer, NoAuthError):
            raise MetadataStoreUnavailable(
                f"{self.place}: no permission: the nodes there belong to somebody else (their ACL does not name"
                " us); check spark.mooring.metadata.auth, its password, and spark.mooring.metadata.acl"
            ) from answer
        if isinstance(answer, InvalidACLError):
            raise MetadataStoreUnavailable(
                f"{self.place}: the servers refuse spark.mooring.metadata.acl; `auth` and `creator` need credentials"
            ) from answer
        if isinstance(answer, ZookeeperError) and not isinstance(answer, _TO_BE_EXPECTED):
            raise MetadataStoreUnavailable(f"{self.place} refuses: {type(answer).__name__}") from answer

    def _refusal(self) -> str:
        return (
            f"{self.place}: authentication failed: check spark.mooring.metadata.auth or spark.mooring.metadata.sasl.*"
        )

    def _wait_until_connected(self, deadline: RetryDeadline) -> KazooClient:
        client = self._running_client()
        with self._news:
            self._news.wait_for(lambda: self._connected or self._refused or self._closed, deadline.seconds_left)
            refused, connected = self._refused, self._connected
        if refused:
            self._discard(client)
            raise MetadataStoreUnavailable(self._refusal())
        if not connected and client.client_state == KeeperState.CLOSED:
            self._discard(client)  # its thread died of an error, which it has logged
        if self._closed or not connected:
            raise self.unavailable(f"no connection within {self.settings.deadline_seconds:g} s")
        return client

    def _running_client(self) -> KazooClient:
        with self._lock:
            if self._closed:
                raise self.unavailable("closed")
            if self._client is None:
                resume, self._resume = self._resume, None
                self._client = new_client(self.settings, self._on_session_seconds, resume)
                self._client.add_listener(partial(self._on_state, self._client))
                self._client.start_async()
            return self._client

    def _on_session_seconds(self, seconds: float) -> None:
        self._session_seconds = seconds

    def _on_state(self, client: KazooClient, state: str) -> None:
        """On kazoo's thread: set flags."""
        connected = state == KazooState.CONNECTED
        with self._news:
            if client is not self._client:
                return
            self._connected = connected
            self._refused = client is not None and client.client_state == KeeperState.AUTH_FAILED
            self._news.notify_all()
        for listener in list(self._listeners):
            listener(connected)

    def _discard(self, client: KazooClient) -> None:
        """Let go of a client that was refused: the next request begins with a new one."""
        with self._lock:
            if self._client is not client:
                return
            self._client = None
        with self._news:
            self._connected = self._refused = False
        end_client(client, wait_seconds=0.0)


def _and_its_parents(path: str) -> list[str]:
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def _exists(client: Any, path: str) -> Any:
    return client.exists_async(path)


def _create_empty(client: Any, path: str) -> Any:
    return client.create_async(path, b"")
