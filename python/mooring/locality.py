"""Providers of locations: the places where executors can share a local store. By default the place is the host.

`Location.scala` has the same rules for executors. For a provider of the user's, an executor runs
`python -m mooring.locality module:Class`. Where a provider fails or returns nothing, the host is the location, and one
log line says so.
"""

from __future__ import annotations

import contextlib
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from mooring.errors import MooringError
from mooring.model import LocationId
from mooring.settings import find_setting, parse_value

NODE_VARIABLE: Final = "NODE_NAME"
"""In a Kubernetes pod: the node, from `spec.nodeName` through the downward API."""

ZONE_VARIABLE: Final = "NODE_ZONE"
"""In a Kubernetes pod: the zone, from the label `topology.kubernetes.io/zone` through the downward API."""

VOLUME_VARIABLE: Final = "MOORING_VOLUME"
"""In a Kubernetes pod: the claim of the volume with the local store, where the plugin has chosen the claim."""

VOLUME_FILE: Final = ".volume"
"""In a local store: the name of the volume that the store lies on. The first executor makes the file."""

LABELS_FILE: Final = Path("/etc/podinfo/labels")
"""In a Kubernetes pod: all its labels, from a volume of the downward API; read when `NODE_ZONE` is not set."""

ZONE_LABEL: Final = "topology.kubernetes.io/zone"

_LABEL = re.compile(rf'{re.escape(ZONE_LABEL)}="(?P<zone>[^"]*)"')

Log = Callable[[str], None]


class _NoLocation(MooringError):
    """A provider has no location; the message says why."""


class LocationIdProvider(ABC):
    """Names the place of a process. Processes with the same location can read and write the same local stores."""

    @abstractmethod
    def location_id(self) -> str:
        """The location. Where it is empty, or an exception is raised, the host is the location."""


class HostLocationIdProvider(LocationIdProvider):
    """The host is the location."""

    def __init__(self, host: str) -> None:
        self._host = host

    def location_id(self) -> LocationId:
        """The host's name."""
        return LocationId(self._host)


class _OrHost(LocationIdProvider):
    """A provider that may have no location. Then the host is the location, and `say` gets the reason, once."""

    def __init__(self, host: str, say: Log) -> None:
        self._host = host
        self._say = say
        self._is_logged = False

    def location_id(self) -> LocationId:
        """The location without surrounding blanks, else the host's name."""
        try:
            return LocationId(self.named_location())
        except _NoLocation as reason:
            if not self._is_logged:
                self._is_logged = True
                self._say(f"{reason}; the host {self._host} is taken instead")
            return LocationId(self._host)

    @abstractmethod
    def named_location(self) -> str:
        """The location. Raises _NoLocation where there is none."""


class EnvLocationIdProvider(_OrHost):
    """An environment variable names the location, such as the node of a Kubernetes pod; without it the host does.

    `say` gets one line when the variable is missing or blank.
    """

    def __init__(self, variable: str, environment: Mapping[str, str], host: str, say: Log) -> None:
        super().__init__(host, say)
        self._variable = variable
        self._environment = environment

    def named_location(self) -> str:
        """The variable's value."""
        return _value_of(self._variable, self._environment)


class KubernetesLocationIdProvider(_OrHost):
    """The node is the location. The pod template gives its name as NODE_NAME, and its zone as NODE_ZONE or in a file.

    `conf/settings.md` has the lines for the template.
    """

    def __init__(
        self, environment: Mapping[str, str], host: str, say: Log, labels_file: Path | None = LABELS_FILE
    ) -> None:
        super().__init__(host, say)
        self._environment = environment
        self._labels_file = labels_file

    def named_location(self) -> str:
        """The node's name."""
        return _value_of(NODE_VARIABLE, self._environment)

    def zone(self) -> str | None:
        """The node's zone: the variable, else the label in the file; None when neither is there."""
        named = self._environment.get(ZONE_VARIABLE, "").strip()
        if named or self._labels_file is None:
            return named or None
        try:
            found = _LABEL.search(self._labels_file.read_text(encoding="utf-8"))
        except OSError:  # no such volume in this pod: the zone is not known
            return None
        return found["zone"].strip() or None if found else None


class VolumeLocationIdProvider(_OrHost):
    """The volume with the local store is the location: `MOORING_VOLUME`, else the name in the store's own file.

    The name stays with the volume, whichever executor has the volume mounted.
    """

    def __init__(self, environment: Mapping[str, str], host: str, say: Log, store: Path | None) -> None:
        super().__init__(host, say)
        self._environment = environment
        self._store = store

    def named_location(self) -> str:
        """The volume's name. Raises _NoLocation where no executor has named the volume yet."""
        named = self._environment.get(VOLUME_VARIABLE, "").strip()
        if named:
            return named
        try:
            found = (self._store / VOLUME_FILE).read_text(encoding="utf-8").strip() if self._store else ""
        except OSError as fault:
            raise _NoLocation(f"the volume has no name ({fault})") from fault
        if not found:
            raise _NoLocation("the volume has no name")
        return found


class CompositeLocationIdProvider(_OrHost):
    """Several locations joined by slashes, such as `slice-4/2`. When one is missing, the host is the location."""

    def __init__(self, parts: Sequence[Callable[[], str]], host: str, say: Log) -> None:
        super().__init__(host, say)
        self._parts = parts

    def named_location(self) -> str:
        """All parts. Raises _NoLocation where one is missing."""
        return "/".join(part() for part in self._parts)


class _UsersLocationIdProvider(_OrHost):
    """A class of the user's. It is made without arguments, and called once."""

    def __init__(self, name: str, host: str, say: Log) -> None:
        super().__init__(host, say)
        self._name = name
        self._location: str | None = None

    def named_location(self) -> str:
        """The location that the class returns. Raises _NoLocation where the class raises anything."""
        if self._location is None:
            self._location = ask_users_class(self._name)
        return self._location


def node_of(location: str, provider: str) -> str | None:
    """The Kubernetes node in a location that this provider has named; None where locations have no node.

    The location of an executor without `NODE_NAME` is the address of its pod, which can not be told from a node.
    """
    kinds, parts = provider.split("/"), location.split("/")
    if len(kinds) != len(parts):
        return None
    nodes = (part for kind, part in zip(kinds, parts, strict=True) if kind in ("kubernetes", f"env:{NODE_VARIABLE}"))
    return next(nodes, None)


def location_id_provider(
    spec: str,
    host: str,
    environment: Mapping[str, str],
    say: Log,
    labels_file: Path | None = LABELS_FILE,
    store: Path | None = None,
) -> LocationIdProvider:
    """The provider for a value of `spark.mooring.location.provider`; InvalidSettingError for an invalid value.

    `store` is the directory of the local store.
    """
    parse_value(find_setting("spark.mooring.location.provider"), spec)
    parts = [_part(part, host, environment, say, labels_file, store) for part in spec.split("/")]
    if len(parts) == 1:
        return parts[0]
    return CompositeLocationIdProvider(
        [part.named_location if isinstance(part, _OrHost) else part.location_id for part in parts], host, say
    )


def ask_users_class(name: str) -> str:
    """The location that a class of the user's returns; `name` is `module:Class`. MooringError where there is none."""
    module, _, attribute = name.partition(":")
    try:
        place = getattr(import_module(module), attribute)().location_id()
    except (Exception, SystemExit) as fault:  # a user's code may raise anything; the executor must start all the same
        raise _NoLocation(f"{name} raised {type(fault).__name__}: {fault}") from fault
    if not isinstance(place, str) or not place.strip() or len(place.splitlines()) > 1:
        raise _NoLocation(f"{name} answered {place!r}, which names no location")
    return place.strip()


def _part(
    spec: str, host: str, environment: Mapping[str, str], say: Log, labels_file: Path | None, store: Path | None
) -> HostLocationIdProvider | _OrHost:
    kind, _, name = spec.partition(":")
    if spec == "host":
        return HostLocationIdProvider(host)
    if spec == "kubernetes":
        return KubernetesLocationIdProvider(environment, host, say, labels_file)
    if spec == "volume":
        return VolumeLocationIdProvider(environment, host, say, store)
    if kind == "env":
        return EnvLocationIdProvider(name, environment, host, say)
    return _UsersLocationIdProvider(spec, host, say)


def _value_of(variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable, "").strip()
    if not value:
        raise _NoLocation(f"the environment variable {variable} names no location")
    return value


def main(arguments: Sequence[str]) -> int:
    """`python -m mooring.locality module:Class`: print only the location that the class returns.

    The class's own output goes to standard error. Returns the exit code: 1 where the class names no location.
    """
    if len(arguments) != 1:
        print("usage: python -m mooring.locality module:Class", file=sys.stderr)
        return 2
    try:
        with contextlib.redirect_stdout(sys.stderr):
            place = ask_users_class(arguments[0])
    except MooringError as reason:
        print(reason, file=sys.stderr)
        return 1
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
