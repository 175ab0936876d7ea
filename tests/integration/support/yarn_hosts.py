"""A YARN cluster with more hosts than an application has executors, and a scheduler that keeps to the wanted hosts."""

HOSTS, EXECUTORS = 6, 3
KEEPS_LOCALITY = {
    "yarn.scheduler.capacity.node-locality-delay": str(HOSTS),
    "yarn.scheduler.capacity.rack-locality-additional-delay": str(HOSTS),
}
"""YARN gives a container on another host only after this many heartbeats of hosts that were not asked for."""
