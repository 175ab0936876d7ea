"""A real API server of Kubernetes with its etcd, as child processes, and a small client for it.

    with ApiServer(tmp_path) as server:
        server.admin.create("default", "pods", {...})
        as_account = server.client(server.account_token("default", "spark"))

There is no scheduler, no controller and no kubelet here: see `kubelet`. Rights are checked (RBAC) and connections are
encrypted. Tokens are random. They are in files that only their owner can read, and in no command line.
"""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mooring.errors import ClusterError
from mooring.testing.kubernetes_binaries import etcd, kube_apiserver
from mooring.testing.kubernetes_certificates import make_certificates
from mooring.testing.probes import accepts_connections, free_port
from mooring.testing.servers import ChildProcess, StartedInWith

Json = dict[str, Any]

SERVICE_NAMES: Final = ("kubernetes.default.svc", "kubernetes.default", "kubernetes")
"""The names by which pods know the API server."""

_ADDRESS = "127.0.0.1"
_GROUPS = {  # resources that are not in the core group
    "roles": "apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "apis/rbac.authorization.k8s.io/v1",
    "networkpolicies": "apis/networking.k8s.io/v1",
}
_TOKEN_SECONDS = 24 * 3600
_REQUEST_TIMEOUT_S = 20.0


class ApiRefused(ClusterError):
    """The API server answered with an error: `code` is that of HTTP, 404 when there is no such object."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ApiClient:
    """Requests to the API server in the name of one user.

    Every call raises `ApiRefused` when the server refuses, `ConnectionError` (an `OSError`) when it does not answer.
    `namespace` is "" for objects that have none, such as nodes. Objects are the JSON of Kubernetes.
    """

    def __init__(self, host: str, port: int, authority: Path, token: str) -> None:
        """`authority` is the certificate that the server's own must be signed by."""
        self._address = host, port
        self._token = token
        self._context = ssl.create_default_context(cafile=str(authority))
        self._mine = threading.local()  # one connection for each thread: a new one takes 20 ms

    def get(self, namespace: str, resource: str, name: str) -> Json:
        """One object."""
        return self.call("GET", _path(namespace, resource, name))

    def list(self, namespace: str, resource: str, selector: str = "") -> list[Json]:
        """All objects of a resource, or those whose labels match `selector`, such as `spark-role=driver`."""
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        return list(self.call("GET", _path(namespace, resource) + query)["items"])

    def create(self, namespace: str, resource: str, body: Json) -> Json:
        """A new object; code 409 when there is one of this name."""
        return self.call("POST", _path(namespace, resource), body)

    def patch(self, namespace: str, resource: str, name: str, change: Json, part: str = "") -> Json:
        """Change fields of an object, as a merge patch. `part` is "status" for the fields below `status`."""
        return self.call("PATCH", _path(namespace, resource, name, part), change, "application/merge-patch+json")

    def delete(self, namespace: str, resource: str, name: str, options: Json | None = None) -> Json:
        """Delete an object. `options` are those of the API: `gracePeriodSeconds`, `preconditions`."""
        return self.call("DELETE", _path(namespace, resource, name), options)

    def call(self, method: str, path: str, body: Json | None = None, kind: str = "application/json") -> Json:
        """One request, with the JSON of its answer."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        try:
            code, answer = self._exchange(method, f"/{path}", data, headers)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(f"{method} {path}: {error or type(error).__name__}") from error
        if code >= 400:
            raise ApiRefused(code, f"{method} {path}: {code} {_message(answer)}")
        return dict(json.loads(answer))

    def _exchange(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        connection: http.client.HTTPSConnection | None = getattr(self._mine, "connection", None)
        if connection is not None:
            try:
                return _answer(connection, method, path, data, headers)
            except http.client.RemoteDisconnected:  # closed while it was idle: nothing of the request was read
                connection.close()
            except BaseException:
                connection.close()
                self._mine.connection = None
                raise
        host, port = self._address
        connection = http.client.HTTPSConnection(host, port, timeout=_REQUEST_TIMEOUT_S, context=self._context)
        self._mine.connection = connection
        return _answer(connection, method, path, data, headers)


def _answer(
    connection: http.client.HTTPSConnection, method: str, path: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes]:
    connection.request(method, path, data, headers)
    with connection.getresponse() as response:
        return response.status, response.read()


def _path(namespace: str, resource: str, name: str = "", part: str = "") -> str:
    group = _GROUPS.get(resource, "api/v1")
    within = f"namespaces/{namespace}" if namespace else ""
    return "/".join(filter(None, (group, within, resource, name, part)))


def _message(answer: bytes) -> str:
    try:
        return str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):  # not the API's own JSON; shown as it came
        return answer.decode(errors="replace")[:500]


class ApiServer(StartedInWith):
    """etcd and kube-apiserver on 127.0.0.1, up after some seconds."""

    def __init__(self, work_dir: Path, flags: Mapping[str, str] | None = None) -> None:
        """Nothing is started. `flags` are further flags of kube-apiserver, without their dashes."""
        self.port = free_port(_ADDRESS)
        self.host = _ADDRESS
        self.url = f"https://{_ADDRESS}:{self.port}"
        self._directory = work_dir
        self._secrets = work_dir / "secrets"
        names = [*(f"DNS:{name}" for name in (*SERVICE_NAMES, "localhost")), f"IP:{_ADDRESS}"]
        self._certificates = make_certificates(self._secrets, names)
        self.authority = self._certificates.authority
        admin_token = secrets.token_urlsafe(32)
        self._tokens = self._secrets / "tokens.csv"
        self.write_secret(self._tokens, f'{admin_token},admin,admin,"system:masters"\n')
        self.admin = self.client(admin_token)
        peer, client = (f"http://{_ADDRESS}:{free_port(_ADDRESS)}" for _ in range(2))
        self._etcd_port = int(client.rpartition(":")[2])
        self.etcd = ChildProcess("etcd", self._etcd_command(peer, client), work_dir / "etcd.log", cwd=work_dir)
        self.server = ChildProcess(
            "kube-apiserver", self._command(client, flags or {}), work_dir / "kube-apiserver.log", cwd=work_dir
        )

    def _etcd_command(self, peer: str, client: str) -> list[str | Path]:
        return [
            etcd(),
            *("--data-dir", self._directory / "etcd"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *(
                "--listen-peer-urls",
                peer,
                "--initial-advertise-peer-urls",
                peer,
                "--initial-cluster",
                f"default={peer}",
            ),
            *("--log-level", "warn", "--unsafe-no-fsync"),
        ]

    def _command(self, store: str, flags: Mapping[str, str]) -> list[str | Path]:
        files = self._certificates
        settings = {
            "etcd-servers": store,
            "bind-address": _ADDRESS,
            "advertise-address": _ADDRESS,
            "secure-port": str(self.port),
            "tls-cert-file": str(files.certificate),
            "tls-private-key-file": str(files.key),
            "token-auth-file": str(self._tokens),
            "authorization-mode": "RBAC",
            "anonymous-auth": "false",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-signing-key-file": str(files.account_key),
            "service-account-key-file": str(files.account_key),
            "service-cluster-ip-range": "192.0.2.128/25",  # of the range for documentation: no service has an address
            "endpoint-reconciler-type": "none",
            **flags,
        }
        return [kube_apiserver(), *(f"--{flag}={value}" for flag, value in settings.items())]

    def start(self, timeout: float = 60.0) -> None:
        """Start both; return when the API server says that it is ready."""
        self.etcd.start(ready=lambda: accepts_connections(_ADDRESS, self._etcd_port), timeout=timeout)
        self.server.start(ready=self._is_ready, timeout=timeout)

    def stop(self) -> None:
        """Kill both."""
        self.server.kill()
        self.etcd.kill()

    def _is_ready(self) -> bool:
        try:
            return bool(self.admin.get("", "namespaces", "default"))
        except ApiRefused as refused:
            if refused.code not in (403, 404, 500, 503):  # it makes its own rules and namespaces in its first seconds
                raise
            return False

    def client(self, token: str) -> ApiClient:
        """A client with this token."""
        return ApiClient(self.host, self.port, self.authority, token)

    def account_token(self, namespace: str, account: str) -> str:
        """A token of a service account, which must exist. It is valid for a day."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        path = f"api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer = self.admin.call("POST", path, {**request, "spec": {"expirationSeconds": _TOKEN_SECONDS}})
        return str(answer["status"]["token"])

    def account_token_file(self, namespace: str, account: str) -> Path:
        """A file with a token of a service account, which only its owner can read."""
        file = self._secrets / f"{namespace}.{account}.token"
        self.write_secret(file, self.account_token(namespace, account))
        return file

    @staticmethod
    def write_secret(file: Path, text: str) -> None:
        """Write a file that only its owner can read."""
        file.touch(mode=0o600)
        file.write_text(text)
