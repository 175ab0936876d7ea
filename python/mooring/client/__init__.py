"""Asking a running application, from anywhere that reaches its metadata store."""

from mooring.client.client import MooringClient

__all__ = ["MooringClient"]
