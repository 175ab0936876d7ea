"""Hot standby, the planning: which processors hold copies of which task, and which run it after a failure. Pure."""

from mooring.standby.assign import MOST_REPLICAS, assign_standbys
from mooring.standby.failover import FailoverPlan, failover_order, plan_failover
from mooring.standby.result import SharedZone, Standbys, Unplaced

__all__ = [
    "MOST_REPLICAS",
    "FailoverPlan",
    "SharedZone",
    "Standbys",
    "Unplaced",
    "assign_standbys",
    "failover_order",
    "plan_failover",
]
