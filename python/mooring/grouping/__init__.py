"""Host affinity, the pure part: groupers decide which processor holds which task, by where the tasks were."""

from mooring.grouping.check import check_grouping, check_job_model
from mooring.grouping.check_standbys import check_standbys
from mooring.grouping.choice import DEFAULT_GROUPER, GrouperChoice, choose_grouper
from mooring.grouping.contract import TaskNameGrouper
from mooring.grouping.host_aware import (
    GroupByContainerCount,
    GroupByContainerIds,
    HostAwareGrouper,
    SingleContainerGrouper,
)
from mooring.grouping.job import GrouperFactory, plan_job
from mooring.grouping.moves import Move, MovePlan, plan_moves
from mooring.grouping.older_forms import GrouperMetadata
from mooring.grouping.with_standbys import StandbyTaskNameGrouper, locations_of_copies

__all__ = [
    "DEFAULT_GROUPER",
    "GroupByContainerCount",
    "GroupByContainerIds",
    "GrouperChoice",
    "GrouperFactory",
    "GrouperMetadata",
    "HostAwareGrouper",
    "Move",
    "MovePlan",
    "SingleContainerGrouper",
    "StandbyTaskNameGrouper",
    "TaskNameGrouper",
    "check_grouping",
    "check_job_model",
    "check_standbys",
    "choose_grouper",
    "locations_of_copies",
    "plan_job",
    "plan_moves",
]
