"""A Spark that starts on this machine without a word, and one sentence on why where it does not."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

from mooring.errors import CheckpointError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NOT_FOUND: Final = re.compile(r"(?:module not found|unresolved dependency|download failed): ([^\s:!\]]+)")
_NO_HOST: Final = re.compile(r"^\s*Host (\S+) not found", re.MULTILINE)
_FAULT: Final = re.compile(r"Exception|Error|error|not set|[Nn]o such|denied")


def start(builder: Any) -> SparkSession:
    """The session of a builder. CheckpointError where it does not start, or its packages can not be fetched.

    What the JVM writes, from its start to its end, is kept off the terminal.
    """
    with tempfile.TemporaryFile() as said:
        try:
            with _written_into(said):
                spark: SparkSession = builder.getOrCreate()
        except Exception as fault:  # whatever kept it from starting, of Spark's, of Py4J's, or of the system's
            said.seek(0)
            reason = why_not_started(said.read().decode("utf-8", "replace"))
            raise CheckpointError(f"Spark did not start on this machine: {reason or first_line(fault)}") from fault
    return spark


def why_not_started(said: str) -> str:
    """From what the JVM said to one sentence; empty where it said nothing that is known here."""
    missing = sorted({found.replace("#", ":").replace(";", ":") for found in _NOT_FOUND.findall(said)})
    if missing:
        hosts = sorted(set(_NO_HOST.findall(said)))
        why = f", as {' and '.join(hosts)} can not be reached" if hosts else ""
        return (
            f"{', '.join(missing)} can not be fetched{why}; expected a network, once, or the jars on this machine:"
            " mooring export takes --conf spark.jars.packages= --conf spark.jars=/path/a.jar,/path/b.jar"
        )
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    faults = [line for line in lines if _FAULT.search(line)]
    return faults[-1] if faults else ""


def first_line(fault: BaseException) -> str:
    """What an error of Spark's says, without the stack of its JVM."""
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), type(fault).__name__)


@contextmanager
def _written_into(file: IO[bytes]) -> Iterator[None]:
    """What this process, and those that it starts meanwhile, write to standard output and error goes into a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        for number, _ in kept:
            os.dup2(file.fileno(), number)
        yield
    finally:
        for number, before in kept:
            os.dup2(before, number)
            os.close(before)
