"""The location of an executor by its volume, as the executor plugin asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway

from tests.integration.support.scala_function import ScalaFunction

pytestmark = pytest.mark.one_jvm


class Environment:
    """The variables of a process, as a Scala function from a name to a value that may be missing."""

    def __init__(self, jvm: Any, variables: Mapping[str, str]) -> None:
        self._jvm, self._variables = jvm, variables

    def apply(self, name: str) -> Any:
        return self._jvm.scala.Option.apply(self._variables.get(name))

    class Java:
        """Read by Py4J."""

        implements = ("scala.Function1",)


def location(gateway: JavaGateway, provider: str, variables: Mapping[str, str], volume: str | None) -> str:
    """The location of an executor whose local store names this volume; empty where the host is the location."""
    either = gateway.jvm.scala.util
    named = either.Left("the file is damaged") if volume is None else either.Right(volume)
    environment = Environment(gateway.jvm, variables)
    labels = gateway.jvm.java.io.File("/no/labels").toPath()
    of = gateway.jvm.io.mooring.common.Location(environment, environment, labels, ScalaFunction(lambda: named))
    return str(of.of(gateway.jvm.scala.Option.apply(provider)))


@pytest.mark.parametrize(
    ("provider", "variables", "volume", "expected"),
    [
        ("volume", {}, "volume-1a2b3c4d", "volume-1a2b3c4d"),
        ("volume", {"MOORING_VOLUME": "data-1"}, "volume-1a2b3c4d", "data-1"),
        ("volume", {"MOORING_VOLUME": " "}, "volume-1a2b3c4d", "volume-1a2b3c4d"),
        ("volume", {}, None, ""),
        ("env:RACK/volume", {"RACK": "r1"}, "volume-1a2b3c4d", "r1/volume-1a2b3c4d"),
        ("kubernetes/volume", {}, "volume-1a2b3c4d", ""),
    ],
)
def test_the_volume_is_the_location(
    gateway: JavaGateway, provider: str, variables: Mapping[str, str], volume: str | None, expected: str
) -> None:
    assert location(gateway, provider, variables, volume) == expected
