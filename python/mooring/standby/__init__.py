"""Pure planning of warm copies: who holds the copies of which task, and who takes over when processors are lost."""

from mooring.standby.assign import MOST_REPLICAS, assign_standbys
from mooring.standby.result import SharedZone, Standbys, Unplaced
from mooring.standby.takeover import TakeOver, take_over, take_over_order

__all__ = [
    "MOST_REPLICAS",
    "SharedZone",
    "Standbys",
    "TakeOver",
    "Unplaced",
    "assign_standbys",
    "take_over",
    "take_over_order",
]
