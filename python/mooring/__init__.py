"""Mooring keeps the state of a Spark Structured Streaming query on the hosts where the query runs."""

from mooring.configure import configure

__all__ = ["__version__", "configure"]

__version__ = "0.1.0"
