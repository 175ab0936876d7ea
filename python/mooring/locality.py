"""Where executors can share a local store: by default on their host.

The executors ask in the JVM (`LocationId.scala`); this is the same rule for tests, clients and the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mooring.errors import InvalidSettingError
from mooring.model import LocationId

_ENVIRONMENT = "env:"

Say = Callable[[str], None]


class LocationIdProvider(Protocol):
    """Names the physical place of a process: all that answer the same can read and write the same local stores."""

    def location_id(self) -> LocationId:
        """The place, never empty."""


class HostLocationIdProvider:
    """The host is the place."""

    def __init__(self, host: str) -> None:
        self._host = host

    def location_id(self) -> LocationId:
        """The host's name."""
        return LocationId(self._host)


class EnvLocationIdProvider:
    """An environment variable names the place, such as the node of a Kubernetes pod; without it the host is the place.

    `say` hears once that the variable is missing or blank.
    """

    def __init__(self, variable: str, environment: Mapping[str, str], host: str, say: Say) -> None:
        self._variable = variable
        self._environment = environment
        self._host = host
        self._say = say
        self._said = False

    def location_id(self) -> LocationId:
        """The variable's value without surrounding blanks, else the host's name."""
        place = self._environment.get(self._variable, "").strip()
        if not place and not self._said:
            self._said = True
            self._say(
                f"the environment variable {self._variable} names no location; the host {self._host} is taken instead"
            )
        return LocationId(place or self._host)


def location_id_provider(spec: str, host: str, environment: Mapping[str, str], say: Say) -> LocationIdProvider:
    """The provider that `spark.mooring.location.provider` names; InvalidSettingError for anything but host or env:X."""
    if spec == "host":
        return HostLocationIdProvider(host)
    if spec.startswith(_ENVIRONMENT) and spec != _ENVIRONMENT:
        return EnvLocationIdProvider(spec[len(_ENVIRONMENT) :], environment, host, say)
    raise InvalidSettingError(f"location.provider={spec}: expected host or env:NAME")
