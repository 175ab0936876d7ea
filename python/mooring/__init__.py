"""Mooring keeps the state of a Spark Structured Streaming query on the hosts where the query runs."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # first: the other modules are syntax errors in an older Python
    raise ImportError(f"Mooring needs Python 3.10 or later, and {sys.executable} is {sys.version.split()[0]}")

from mooring.configure import configure

__all__ = ["__version__", "configure"]

__version__ = "0.1.0"
