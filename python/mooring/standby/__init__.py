"""Hot standby, the planning: which processors hold copies of which task, and which run it after a failure. Pure."""

from mooring.standby.assign import MOST_REPLICAS, assign_standbys
from mooring.standby.failover import choose_new_owners, failover_order
from mooring.standby.result import SharedZone, Standbys, Unplaced

__all__ = [
    "MOST_REPLICAS",
    "SharedZone",
    "Standbys",
    "Unplaced",
    "assign_standbys",
    "choose_new_owners",
    "failover_order",
]
