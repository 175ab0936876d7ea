"""Where executors can share a local store: by default on their host.

The executors ask in the JVM (`Location.scala`), by the same rules; a provider of the user's they ask by
`python -m mooring.locality module:Class`. Where one fails or answers nothing the host is the place, which is said once.
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

LABELS_FILE: Final = Path("/etc/podinfo/labels")
"""In a Kubernetes pod: all its labels, from a volume of the downward API; read when the variable is not there."""

ZONE_LABEL: Final = "topology.kubernetes.io/zone"

_LABEL = re.compile(rf'{re.escape(ZONE_LABEL)}="(?P<zone>[^"]*)"')

Say = Callable[[str], None]


class _NoAnswer(MooringError):
    """A provider has no answer; the message says why."""


class LocationIdProvider(ABC):
    """Names the physical place of a process: all that answer the same can read and write the same local stores."""

    @abstractmethod
    def location_id(self) -> str:
        """The place. Empty, or an exception: the host is taken instead."""


class HostLocationIdProvider(LocationIdProvider):
    """The host is the place."""

    def __init__(self, host: str) -> None:
        self._host = host

    def location_id(self) -> LocationId:
        """The host's name."""
        return LocationId(self._host)


class _OrHost(LocationIdProvider):
    """A provider that may have no answer: then the host is the place, and `say` hears once why."""

    def __init__(self, host: str, say: Say) -> None:
        self._host = host
        self._say = say
        self._said = False

    def location_id(self) -> LocationId:
        """The place without surrounding blanks, else the host's name."""
        try:
            return LocationId(self.answer())
        except _NoAnswer as reason:
            if not self._said:
                self._said = True
                self._say(f"{reason}; the host {self._host} is taken instead")
            return LocationId(self._host)

    @abstractmethod
    def answer(self) -> str:
        """The place, or _NoAnswer."""


class EnvLocationIdProvider(_OrHost):
    """An environment variable names the place, such as the node of a Kubernetes pod; without it the host is the place.

    `say` hears once that the variable is missing or blank.
    """

    def __init__(self, variable: str, environment: Mapping[str, str], host: str, say: Say) -> None:
        super().__init__(host, say)
        self._variable = variable
        self._environment = environment

    def answer(self) -> str:
        """The variable's value."""
        return _value_of(self._variable, self._environment)


class KubernetesLocationIdProvider(_OrHost):
    """The node is the place. The pod template gives its name as NODE_NAME, and its zone as NODE_ZONE or in a file.

    What the template has to say is in `conf/settings.md`.
    """

    def __init__(
        self, environment: Mapping[str, str], host: str, say: Say, labels_file: Path | None = LABELS_FILE
    ) -> None:
        super().__init__(host, say)
        self._environment = environment
        self._labels_file = labels_file

    def answer(self) -> str:
        """The node's name."""
        return _value_of(NODE_VARIABLE, self._environment)

    def zone(self) -> str | None:
        """The node's zone: the variable, else the label in the file; None, when neither says it."""
        named = self._environment.get(ZONE_VARIABLE, "").strip()
        if named or self._labels_file is None:
            return named or None
        try:
            found = _LABEL.search(self._labels_file.read_text(encoding="utf-8"))
        except OSError:  # no such volume in this pod: the zone is not known
            return None
        return found["zone"].strip() or None if found else None


class CompositeLocationIdProvider(_OrHost):
    """Several answers joined by slashes, such as `slice-4/2`. When one is missing, the host alone is the place."""

    def __init__(self, parts: Sequence[Callable[[], str]], host: str, say: Say) -> None:
        super().__init__(host, say)
        self._parts = parts

    def answer(self) -> str:
        """All answers, or none."""
        return "/".join(part() for part in self._parts)


class _UsersLocationIdProvider(_OrHost):
    """A class of the user's, which is made without arguments and asked once."""

    def __init__(self, name: str, host: str, say: Say) -> None:
        super().__init__(host, say)
        self._name = name
        self._answer: str | None = None

    def answer(self) -> str:
        """What the class answers; whatever it raises is no answer."""
        if self._answer is None:
            self._answer = ask_users_class(self._name)
        return self._answer


def location_id_provider(
    spec: str, host: str, environment: Mapping[str, str], say: Say, labels_file: Path | None = LABELS_FILE
) -> LocationIdProvider:
    """The provider that `spark.mooring.location.provider` names; InvalidSettingError for what it may not be."""
    parse_value(find_setting("spark.mooring.location.provider"), spec)
    parts = [_part(part, host, environment, say, labels_file) for part in spec.split("/")]
    if len(parts) == 1:
        return parts[0]
    return CompositeLocationIdProvider(
        [part.answer if isinstance(part, _OrHost) else part.location_id for part in parts], host, say
    )


def ask_users_class(name: str) -> str:
    """The answer of a class of the user's, given as `module:Class`. MooringError when it has none, saying why."""
    module, _, attribute = name.partition(":")
    try:
        place = getattr(import_module(module), attribute)().location_id()
    except (Exception, SystemExit) as fault:  # a user's code may raise anything; the executor must start all the same
        raise _NoAnswer(f"{name} raised {type(fault).__name__}: {fault}") from fault
    if not isinstance(place, str) or not place.strip() or len(place.splitlines()) > 1:
        raise _NoAnswer(f"{name} answered {place!r}, which names no location")
    return place.strip()


def _part(
    spec: str, host: str, environment: Mapping[str, str], say: Say, labels_file: Path | None
) -> HostLocationIdProvider | _OrHost:
    kind, _, name = spec.partition(":")
    if spec == "host":
        return HostLocationIdProvider(host)
    if spec == "kubernetes":
        return KubernetesLocationIdProvider(environment, host, say, labels_file)
    if kind == "env":
        return EnvLocationIdProvider(name, environment, host, say)
    return _UsersLocationIdProvider(spec, host, say)


def _value_of(variable: str, environment: Mapping[str, str]) -> str:
    value = environment.get(variable, "").strip()
    if not value:
        raise _NoAnswer(f"the environment variable {variable} names no location")
    return value


def main(arguments: Sequence[str]) -> int:
    """`python -m mooring.locality module:Class`: print what the class answers, and nothing else; 1 if it has no answer.

    What the class itself prints goes to standard error.
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
