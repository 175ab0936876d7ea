"""On which hosts the cluster manager is asked for executors. Pure."""

from mooring.allocation.hosts import Carrier, given_elsewhere, hosts_wanted

__all__ = ["Carrier", "given_elsewhere", "hosts_wanted"]
