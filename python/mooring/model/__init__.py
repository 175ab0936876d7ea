"""Values only: names, tasks, containers, the job model and its JSON, events, orders. No input or output."""

from mooring.model.container_model import ContainerModel
from mooring.model.job_model import JobModel
from mooring.model.job_model_json import job_model_from_json, job_model_to_json
from mooring.model.names import ANY_HOST, LocationId, TaskName, named_location, natural_order, standby_name
from mooring.model.task_model import SystemStreamPartition, TaskMode, TaskModel

__all__ = [
    "ANY_HOST",
    "ContainerModel",
    "JobModel",
    "LocationId",
    "SystemStreamPartition",
    "TaskMode",
    "TaskModel",
    "TaskName",
    "job_model_from_json",
    "job_model_to_json",
    "named_location",
    "natural_order",
    "standby_name",
]
