"""A directory of records as the agent leaves it, written by the agent's own code."""

import json
import time

from mooring.metadata import FileMetadataStore
from mooring.model import ContainerModel, JobModel, LocationId, SystemStreamPartition, TaskModel, TaskName
from mooring.records.records import Records

HOSTS = ("10.0.0.2", "10.0.0.3", "10.0.0.4")


def task(query, partition):
    """As the agent makes them; the query's name is in the stores' streams."""
    stores = frozenset({SystemStreamPartition("spark", f"{query}/0/default", partition)})
    return TaskModel(TaskName(f"{query}/Partition {partition}"), stores, partition)


def job_model(query="clicks", partitions=9, hosts=HOSTS, version=12):
    """One processor on each host, the tasks in turn."""
    return JobModel.of(
        [
            ContainerModel.of(
                str(number), [task(query, p) for p in range(number, partitions, len(hosts))], LocationId(host)
            )
            for number, host in enumerate(hosts)
        ],
        version,
    )


def status(model, counters=None, local_bytes=30_000_000):
    """What the agent would say of this job model."""
    containers = list(model.containers.values())
    return {
        "application": "app-20261121-0001",
        "leader": "app-20261121-0001",
        "version": model.version,
        "at": time.time_ns() // 1_000_000,
        "hosts": [{"location": c.location_id, "executors": [c.processor_id]} for c in containers],
        "processors": [
            {
                "id": c.processor_id,
                "executor": c.processor_id,
                "location": c.location_id,
                "state": "bound",
                "tasks": list(c.tasks),
                "standby-tasks": [],
            }
            for c in containers
        ],
        "queries": [
            {
                "name": "clicks",
                "id": "3f0c0de0-0000-0000-0000-000000000000",
                "run-id": "7d0c0de0-0000-0000-0000-000000000000",
                "checkpoint": "file:/checkpoints/clicks",
                "batch": 41,
                "state": "running",
            }
        ],
        "tasks": [
            {
                "name": name,
                "mode": "Active",
                "processor": c.processor_id,
                "location": c.location_id,
                "local-bytes": local_bytes,
                "lag-versions": 0,
                "estimated-recovery-seconds": None,
            }
            for c in containers
            for name in c.tasks
        ],
        "counters": counters or {"batches": 42, "restore-bytes-remote": 0, "restore-ms": 0},
    }


def write(directory, model=None, record=None):
    """Leave a job model, its localities and a status in a directory; its path as text."""
    model = model or job_model()
    with FileMetadataStore(str(directory)) as store:
        records = Records(store, print)
        records.write_job_model(model)
        records.write_task_locality({name: c.location_id for c in model.containers.values() for name in c.tasks})
        records.write_status(status(model) if record is None else record)
    return str(directory)


def files_of(directory):
    """Every file below a directory with its content, to see that nothing was changed."""
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def as_json(text):
    return json.loads(text)
