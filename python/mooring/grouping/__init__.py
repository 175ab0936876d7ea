"""Pure planning: from tasks and where they were to the processors that hold them. No input, no output, no clock."""

from mooring.grouping.check import check_grouping, check_job_model
from mooring.grouping.contract import TaskNameGrouper
from mooring.grouping.host_aware import HostAwareGrouper
from mooring.grouping.job import GrouperFactory, plan_job
from mooring.grouping.moves import Move, MovePlan, plan_moves

__all__ = [
    "GrouperFactory",
    "HostAwareGrouper",
    "Move",
    "MovePlan",
    "TaskNameGrouper",
    "check_grouping",
    "check_job_model",
    "plan_job",
    "plan_moves",
]
