"""Why there is no session: asks each server directly, and describes its answer in words for an error message."""

from __future__ import annotations

import socket

_PORT = 2181
_SECONDS = 1.0
_SILENCE = b"silence"


def why_unreachable(hosts: str, tls: bool = False) -> str:
    """One clause for each server of `host:port,host:port`. A silent server takes a second."""
    return ", ".join(f"{host} {_state_of(host, tls)}" for host in hosts.split(","))


def _state_of(address: str, tls: bool) -> str:
    try:
        with socket.create_connection(_host_and_port(address), timeout=_SECONDS) as connection:
            if tls:
                return "accepts connections but gives no session: no quorum, or TLS was not agreed upon"
            answer = _answer(connection)
    except socket.gaierror as error:
        return f"cannot be resolved ({error.strerror})"
    except TimeoutError:
        return "does not answer"
    except OSError as error:
        return f"cannot be reached ({error.strerror or error})"
    if answer == _SILENCE:
        return "accepts connections and does not answer: it hangs, or it expects TLS"
    if b"Mode: " in answer:
        return "serves others, and answered us too late or not at all"
    if b"not currently serving" in answer:
        return "is up but serves nobody: the ensemble has no quorum"
    return "accepts connections but gives no session: no quorum, or it expects TLS or SASL"


def _answer(connection: socket.socket) -> bytes:
    """The server's answer to the command `srvr`; empty when it closes the connection."""
    try:
        connection.sendall(b"srvr")
        answer = b""
        while block := connection.recv(4096):
            answer += block
    except TimeoutError:
        return _SILENCE
    return answer


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        return address.strip("[]"), _PORT
    return host.strip("[]"), int(port)
