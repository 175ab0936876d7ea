"""Pure planning of warm copies: who holds the copies of which task, and who takes over when processors are lost."""

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
