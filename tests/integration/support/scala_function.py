"""Scala functions that call Python, for a JVM whose gateway has a callback server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class ScalaFunction:
    """A Scala function without parameters; also an argument that Scala takes by name."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def apply(self) -> Any:
        return self._function()

    class Java:
        """Read by Py4J."""

        implements = ("scala.Function0",)


for form in ("Z", "V"):  # Scala's forms of it for a Boolean, and for no result
    setattr(ScalaFunction, f"apply$mc{form}$sp", ScalaFunction.apply)
