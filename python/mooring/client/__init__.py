"""The client of a running application, for use wherever its metadata store can be reached."""

from mooring.client.client import MooringClient

__all__ = ["MooringClient"]
