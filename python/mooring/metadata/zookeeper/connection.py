"""One session with ZooKeeper: it sends requests, many at a time, and translates the errors of kazoo.

This is the only file of the store that turns kazoo's errors into Mooring's. Code that runs on kazoo's own threads only
sets flags and never waits for ZooKeeper, because those threads deliver the answers.
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
"""Called on kazoo's thread with True when the connection is there and False when it is not. It may only set a flag."""

_WITHOUT_ANSWER = (
    ConnectionLoss,
    SessionExpiredError,
    ConnectionClosedError,
    OperationTimeoutError,
    RequestTimeoutError,
    SessionMovedError,
)
_EXPECTED_ANSWERS = (
    NoNodeError,
    NodeExistsError,
    NotEmptyError,
    BadVersionError,
    RolledBackError,  # the answer for the other operations of a refused transaction
    RuntimeInconsistency,
)
_WINDOW = 100


class NoAnswer(Exception):
    """The connection broke or no answer came in time: the request may have been done or not. Mooring catches this."""


class RetryDeadline:
    """How long a call is tried again. Each answer starts the time anew: a long list of requests may take longer."""

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._now = seconds, now
        self.renew()

    def renew(self) -> None:
        """An answer came: the full time is left again."""
        self._end = self._now() + self._seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; 0 after it."""
        return max(0.0, self._end - self._now())


class ZkConnection:
    """A session that begins with the first request. When it expires, a new one begins, until `close`."""

    def __init__(self, settings: ZkSettings, resume: Credentials | None = None) -> None:
        """`resume`: the session of a process that has died, to be continued if it has not expired."""
        self.settings = settings
        self._resume = resume
        self.place = settings.place
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._client: KazooClient | None = None
        self._connected = False
        self._refused = False
        self._closed = False
        self._listeners: list[SessionListener] = []
        self._session_seconds = settings.session_timeout_seconds

    def new_deadline(self) -> RetryDeadline:
        """The deadline of a call that begins now, after the setting `retry.deadline`."""
        return RetryDeadline(self.settings.deadline_seconds)

    def listen(self, listener: SessionListener) -> Callable[[], None]:
        """Call `listener` whenever the connection comes or goes. The returned function ends this."""
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
        """With these another process can continue the session after this one has died. A secret."""
        client = self._client
        found = client.client_id if client is not None and self._connected else None
        return None if found is None else (int(found[0]), bytes(found[1]))

    @property
    def session_seconds(self) -> float:
        """After how many silent seconds the servers end the session: what they granted, not what was asked for."""
        return self._session_seconds

    @property
    def is_connected(self) -> bool:
        """Whether there is a live connection, according to kazoo's last notice."""
        return self._connected

    def attempt(self, requests: Sequence[Request], deadline: RetryDeadline, window: int = _WINDOW) -> list[Any]:
        """Send each request once, `window` at a time, and return their answers in the same order.

        Where a node exists, is missing or has another version, the answer is kazoo's error, which is returned. Any
        other refusal (such as a missing permission) raises MetadataStoreUnavailable. Without a connection nothing is
        sent, and MetadataStoreUnavailable is raised. `NoAnswer` when a request was sent and not answered.
        """
        answers: list[Any] = []
        for start in range(0, len(requests), window):
            client = self._wait_until_connected(deadline)
            sent = [request(client) for request in requests[start : start + window]]
            answers += [self._answer(pending, deadline) for pending in sent]
        return answers

    def ask(
        self, requests: Sequence[Request], deadline: RetryDeadline | None = None, window: int = _WINDOW
    ) -> list[Any]:
        """As `attempt`, but sent again after `NoAnswer`, until the deadline: only for requests that may be repeated."""
        deadline = deadline or self.new_deadline()
        while True:
            try:
                return self.attempt(requests, deadline, window)
            except NoAnswer as no_answer:
                self.pause(deadline, no_answer)

    def pause(self, deadline: RetryDeadline, no_answer: NoAnswer) -> None:
        """Wait for `retry.delay` before another try; MetadataStoreUnavailable when the deadline has passed."""
        if self._closed or not deadline.seconds_left:
            raise self.unavailable(str(no_answer)) from no_answer
        time.sleep(min(self.settings.retry_delay_seconds, deadline.seconds_left))

    def unavailable(self, what: str) -> MetadataStoreError:
        """The error for a missing connection; its message says what each server answers to a direct question."""
        if self._closed:
            return MetadataStoreError(f"this connection to {self.place} is closed")
        tls = bool(self.settings.tls.get("use_ssl"))
        return MetadataStoreUnavailable(f"{self.place}: {what}; {why_unreachable(self.settings.hosts, tls)}")

    def create_missing(self, paths: Sequence[str], deadline: RetryDeadline) -> None:
        """Create the nodes that are missing, parents first. Nodes that exist stay as they are, whoever owns them."""
        with_parents = {at for path in paths for at in _and_its_parents(path)}
        wanted = sorted(with_parents)  # a parent sorts before its children
        stats = self.ask([partial(_exists, path=at) for at in wanted], deadline)
        for at, stat in zip(wanted, stats, strict=True):
            if stat is None:
                self.ask([partial(_create_empty, path=at)], deadline)

    def close(self) -> None:
        """End the session; ZooKeeper removes its ephemeral nodes."""
        with self._lock:
            self._closed = True
            client, self._client = self._client, None
        with self._changed:
            self._connected = False
            self._changed.notify_all()
        if client is not None:
            end_client(client, wait_seconds=2.0)

    def _answer(self, sent: Any, deadline: RetryDeadline) -> Any:
        try:
            answer = sent.get(timeout=max(deadline.seconds_left, 0.001))
        except KazooTimeoutError:
            raise NoAnswer("no answer came in time") from None
        except _WITHOUT_ANSWER as error:
            raise NoAnswer(f"the connection was lost ({type(error).__name__})") from error
        except ZookeeperError as error:
            self._raise_if_final(error)
            answer = error
        except Exception as error:  # kazoo's threads hand over any error of theirs, as for an answer they cannot parse
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
        if isinstance(answer, ZookeeperError) and not isinstance(answer, _EXPECTED_ANSWERS):
            raise MetadataStoreUnavailable(f"{self.place} refuses: {type(answer).__name__}") from answer

    def _refusal(self) -> str:
        return (
            f"{self.place}: authentication failed: check spark.mooring.metadata.auth or spark.mooring.metadata.sasl.*"
        )

    def _wait_until_connected(self, deadline: RetryDeadline) -> KazooClient:
        client = self._running_client()
        with self._changed:
            self._changed.wait_for(lambda: self._connected or self._refused or self._closed, deadline.seconds_left)
            refused, connected = self._refused, self._connected
        if refused:
            self._discard(client)
            raise MetadataStoreUnavailable(self._refusal())
        if not connected and client.client_state == KeeperState.CLOSED:
            self._discard(client)  # kazoo's thread ended with an error, which it has logged
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
        with self._changed:
            if client is not self._client:
                return
            self._connected = connected
            self._refused = client is not None and client.client_state == KeeperState.AUTH_FAILED
            self._changed.notify_all()
        for listener in list(self._listeners):
            listener(connected)

    def _discard(self, client: KazooClient) -> None:
        """Drop a client that the servers refused, or that has ended; the next request makes a new one."""
        with self._lock:
            if self._client is not client:
                return
            self._client = None
        with self._changed:
            self._connected = self._refused = False
        end_client(client, wait_seconds=0.0)


def _and_its_parents(path: str) -> list[str]:
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[:depth]) for depth in range(1, len(names) + 1)]


def _exists(client: Any, path: str) -> Any:
    return client.exists_async(path)


def _create_empty(client: Any, path: str) -> Any:
    return client.create_async(path, b"")
