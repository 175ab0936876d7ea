"""Probes of a running server: wait for a condition, read a REST address, find a free port."""

from __future__ import annotations

import http.client
import json
import random
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from mooring.errors import ClusterError

# Below the range from which Linux takes ports for outgoing connections (32768 and up), so that a port that was free
# a moment ago is not taken by a client of something else before the server binds it.
_FIRST_PORT, _LAST_PORT = 12_000, 31_999


def wait_until(
    condition: Callable[[], bool],
    what: str,
    timeout: float = 60.0,
    interval: float = 0.05,
    story: Callable[[], str] = str,
) -> None:
    """Return as soon as `condition()` is true; ask again every `interval` seconds.

    An `OSError` from the condition, such as a refused connection, counts as false; any other error is raised to the
    caller. After `timeout` seconds: `ClusterError` with `what` and the text of `story()`, most often the end of a log.
    """
    deadline = time.monotonic() + timeout
    refusal = ""
    while True:
        try:
            if condition():
                return
        except OSError as error:
            refusal = f" (last answer: {error})"
        if time.monotonic() >= deadline:
            raise ClusterError("\n".join(filter(None, [f"waited {timeout:g} s for {what}{refusal}", story()])))
        time.sleep(interval)


def get_json(url: str, timeout: float = 10.0) -> Any:
    """The JSON at a REST address. `ConnectionError` (an `OSError`) when there is no answer, or no JSON."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as answer:
            return json.load(answer)
    except (urllib.error.URLError, http.client.HTTPException, ValueError) as error:
        raise ConnectionError(f"{url}: {error}") from error


def accepts_connections(host: str, port: int) -> bool:
    """True when a server listens there; `OSError` when not, which `wait_until` counts as false."""
    with socket.create_connection((host, port), timeout=1.0):
        return True


def free_port(host: str = "127.0.0.1") -> int:
    """A port of this host without a listener. It is not reserved: bind it soon."""
    for _ in range(100):
        port = random.randint(_FIRST_PORT, _LAST_PORT)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((host, port))
            except OSError:
                continue
            return port
    raise ClusterError(f"no free port on {host} between {_FIRST_PORT} and {_LAST_PORT}")
