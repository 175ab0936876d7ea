"""Parses `zk://host:port[,host:port]/root` and the options of `spark.mooring.metadata.*`, and refuses unknown ones."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from mooring.errors import InvalidSettingError, MetadataStoreError
from mooring.metadata.zookeeper.nodes import node_name
from mooring.settings.notation import parse_duration_ms

_DURATIONS = {"timeout": "10s", "retry.deadline": "15s", "retry.delay": "100ms", "retry.max.delay": "2s"}
_FLAGS = {"use.ssl": False, "verify.certs": True, "check.hostname": False}
_FILES = ("ca", "certfile", "keyfile", "keyfile.password")
_SASL = ("mechanism", "username", "password", "service", "principal")
_OTHERS = ("auth", "auth.password", "acl", "run.id")
_PERMISSIONS = frozenset("cdrwa")
_RUN_ID = re.compile(r"[A-Za-z0-9]{1,50}")
_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")

KNOWN = (*_DURATIONS, *_FLAGS, *_FILES, *(f"sasl.{name}" for name in _SASL), *_OTHERS)
"""Every option. Where kazoo has the same option, its name is kazoo's, with dots in place of underscores."""


@dataclass(frozen=True)
class Acl:
    """One entry of an access control list, as zkCli writes it: `scheme:id:cdrwa`."""

    scheme: str
    id: str
    permissions: str


@dataclass(frozen=True)
class ZkSettings:
    """Where ZooKeeper is, and how to connect to it. `repr` shows no secret."""

    hosts: str
    root: str
    session_timeout_seconds: float = 10.0
    deadline_seconds: float = 15.0
    retry_delay_seconds: float = 0.1
    retry_max_delay_seconds: float = 2.0
    acl: tuple[Acl, ...] | None = None
    auth: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    sasl: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Mapping[str, Any] = field(default_factory=dict, repr=False)
    run_id: str = "1"

    @property
    def place(self) -> str:
        """The address, for messages."""
        return f"zk://{self.hosts}{self.root}"

    def of_application(self, name: str) -> ZkSettings:
        """The same settings, with the application's own directory as the root: `<root>/<application>-<run id>`."""
        return replace(self, root=f"{self.root}/{node_name(name)}-{self.run_id}")


def settings_from(uri: str, options: Mapping[str, str]) -> ZkSettings:
    """The settings of a URI and options. MetadataStoreError for a wrong URI, InvalidSettingError for a wrong option."""
    _refuse_unknown(options)
    hosts, root = _parse_uri(uri)
    auth, sasl = _auth(options), _sasl(options)
    seconds = {name: _seconds(name, options.get(name, default)) for name, default in _DURATIONS.items()}
    return ZkSettings(
        hosts,
        root,
        session_timeout_seconds=seconds["timeout"],
        deadline_seconds=seconds["retry.deadline"],
        retry_delay_seconds=seconds["retry.delay"],
        retry_max_delay_seconds=seconds["retry.max.delay"],
        acl=_acl(options.get("acl", "creator" if auth or sasl else "open"), bool(auth or sasl)),
        auth=auth,
        sasl=sasl,
        tls=_tls(options),
        run_id=_run_id(options.get("run.id", "1")),
    )


def _run_id(text: str) -> str:
    if _RUN_ID.fullmatch(text) is None:
        raise InvalidSettingError(f"metadata.run.id={text}: expected letters and digits, such as 1 or production")
    return text


def _refuse_unknown(options: Mapping[str, str]) -> None:
    for name in sorted(set(options) - set(KNOWN)):
        nearest = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.0)[0]
        raise InvalidSettingError(
            f"the ZooKeeper metadata store has no option {name!r} (spark.mooring.metadata.{name});"
            f" nearest: {nearest}; it knows {', '.join(sorted(KNOWN))}"
        )


def _parse_uri(uri: str) -> tuple[str, str]:
    hosts, _, path = re.sub(r"^[a-zA-Z]+://", "", uri).partition("/")
    if "@" in hosts:  # the message does not repeat the address, as a password may be in it
        raise MetadataStoreError(
            "a zk:// address holds no user or password: write zk://host:port/root, and set"
            " spark.mooring.metadata.auth=digest:<user> and spark.mooring.metadata.auth.password"
        )
    bad = [host for host in hosts.split(",") if _HOST.fullmatch(host) is None]
    names = [name for name in path.split("/") if name]
    if bad:
        raise MetadataStoreError(f"{uri}: {bad[0]!r} is no host and port; write zk://host:port,host:port/root")
    if not names or any(name in (".", "..") or not name.isprintable() for name in names) or names[0] == "zookeeper":
        raise MetadataStoreError(
            f"{uri} names no root of its own; write a path after the hosts, such as zk://{hosts}/mooring"
        )
    return hosts, "/" + "/".join(names)


def _seconds(name: str, text: str) -> float:
    try:
        milliseconds = parse_duration_ms(text)
    except ValueError:
        milliseconds = 0
    if milliseconds <= 0:
        raise InvalidSettingError(f"metadata.{name}={text}: expected a duration above zero, such as 10s")
    return milliseconds / 1000


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidSettingError(f"metadata.{name}={text}: expected true or false")
    return text.lower() == "true"


def _auth(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The credentials in kazoo's form. No message repeats them."""
    text, password = options.get("auth"), options.get("auth.password")
    if text is None:
        if password is not None:
            raise InvalidSettingError("metadata.auth.password is set without metadata.auth=digest:<user>")
        return ()
    scheme, _, credential = text.partition(":")
    if password is not None:
        credential = f"{credential}:{password}"
    if not scheme or not credential or (scheme == "digest" and ":" not in credential):
        raise InvalidSettingError(
            "metadata.auth: expected digest:<user>:<password>, or digest:<user> with metadata.auth.password"
        )
    return ((scheme, credential),)


def _sasl(options: Mapping[str, str]) -> Mapping[str, str]:
    sasl = {name: options[f"sasl.{name}"] for name in _SASL if f"sasl.{name}" in options}
    if sasl and "mechanism" not in sasl:
        raise InvalidSettingError("metadata.sasl.mechanism is missing: GSSAPI or DIGEST-MD5, beside the other sasl.*")
    if sasl and importlib.util.find_spec("puresasl") is None:
        raise MetadataStoreError("SASL needs the package pure-sasl beside kazoo: pip install 'kazoo[sasl]'")
    return MappingProxyType(sasl)


def _tls(options: Mapping[str, str]) -> Mapping[str, Any]:
    flags = {name: _flag(name, options[name]) for name in _FLAGS if name in options}
    files = {name: options[name] for name in _FILES if name in options}
    use = flags.get("use.ssl", bool(files))
    if not use and (files or flags.keys() - {"use.ssl"}):
        raise InvalidSettingError(
            "metadata.use.ssl=false, and options of TLS are set beside it: remove one or the other"
        )
    return MappingProxyType(
        {name.replace(".", "_"): value for name, value in {**_FLAGS, **files, **flags, "use.ssl": use}.items()}
    )


def _acl(text: str, authenticates: bool) -> tuple[Acl, ...]:
    if text == "open":
        return (Acl("world", "anyone", "cdrwa"),)
    if text == "creator":
        if not authenticates:
            raise InvalidSettingError("metadata.acl=creator needs metadata.auth or metadata.sasl.mechanism")
        return (Acl("auth", "", "cdrwa"),)
    return tuple(map(_acl_entry, text.split(",")))


def _acl_entry(text: str) -> Acl:
    scheme, _, rest = text.strip().partition(":")
    id, colon, permissions = rest.rpartition(":")
    if not scheme or not colon or not permissions or not set(permissions) <= _PERMISSIONS:
        raise InvalidSettingError(
            f"metadata.acl: an entry of scheme {scheme!r} is not scheme:id:permissions, with permissions of the"
            " letters cdrwa; or write open, or creator"
        )
    return Acl(scheme, id, permissions)
