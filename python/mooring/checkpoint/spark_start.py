"""Starts Spark on this machine without output on the terminal; when Spark does not start, one sentence says why."""

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
    """The session of a builder. The output of its JVM, from start to end, does not appear on the terminal.

    CheckpointError where Spark does not start, or where its packages can not be fetched.
    """
    with tempfile.TemporaryFile() as output:
        try:
            with _written_into(output):
                spark: SparkSession = builder.getOrCreate()
        except Exception as fault:  # any class: Spark, Py4J and the system raise errors of their own
            output.seek(0)
            reason = why_not_started(output.read().decode("utf-8", "replace"))
            raise CheckpointError(f"Spark did not start on this machine: {reason or first_line(fault)}") from fault
    return spark


def why_not_started(output: str) -> str:
    """One sentence on why a JVM with this output did not start; empty where the output has no known error."""
    missing = sorted({found.replace("#", ":").replace(";", ":") for found in _NOT_FOUND.findall(output)})
    if missing:
        hosts = sorted(set(_NO_HOST.findall(output)))
        why = f", as {' and '.join(hosts)} can not be reached" if hosts else ""
        return (
            f"{', '.join(missing)} can not be fetched{why}; expected a network, once, or the jars on this machine:"
            " mooring export takes --conf spark.jars.packages= --conf spark.jars=/path/a.jar,/path/b.jar"
        )
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    faults = [line for line in lines if _FAULT.search(line)]
    return faults[-1] if faults else ""


def first_line(fault: BaseException) -> str:
    """The first line of an error's text; Spark's errors go on with the stack of the JVM."""
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), type(fault).__name__)


@contextmanager
def _written_into(file: IO[bytes]) -> Iterator[None]:
    """Send standard output and error of this process, and of processes that it starts meanwhile, to a file."""
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
