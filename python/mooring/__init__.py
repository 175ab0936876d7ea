"""Mooring keeps the state of a Spark Structured Streaming query on the hosts where the query runs."""

__version__ = "0.1.0"
