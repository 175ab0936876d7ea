"""Hot standby, the planning: which processors hold copies of which task, and which run it after a failure. Pure."""

from mooring.standby.assign import MOST_REPLICAS, assign_standbys
from mooring.standby.failover import choose_new_owners, failover_order
from mooring.standby.result import JobModelWithStandbys, SharedZone, Unplaced

__all__ = [
    "MOST_REPLICAS",
    "JobModelWithStandbys",
    "SharedZone",
    "Unplaced",
    "assign_standbys",
    "choose_new_owners",
    "failover_order",
]
