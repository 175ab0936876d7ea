"""A job on Kubernetes that is ended and started again, with its local stores on disks of nodes or on volumes."""

from __future__ import annotations

from typing import Final

from mooring.testing.hosts import ExecutorProcess
from mooring.testing.kubernetes import KubernetesCluster
from mooring.testing.probes import wait_until
from tests.integration.support.restarted_job import opened
from tests.integration.support.restarted_on_cluster import RestartedJob

MOUNT: Final = "/var/lib/mooring-test"
STORE: Final = {"spark.mooring.local.store.dir": f"{MOUNT}/store"}
VOLUME: Final = "spark.kubernetes.executor.volumes.{}.spark-local-dir-mooring"
"""A volume of this name is Spark's local directory too, so that state files are linked into the store."""

ON_NODES: Final = {
    f"{VOLUME.format('hostPath')}.options.path": "/mooring",
    f"{VOLUME.format('hostPath')}.options.type": "DirectoryOrCreate",
    f"{VOLUME.format('hostPath')}.mount.path": MOUNT,
    "spark.mooring.location.provider": "kubernetes",
    **STORE,
}
ON_CLAIMS: Final = {
    f"{VOLUME.format('persistentVolumeClaim')}.options.claimName": "state-SPARK_EXECUTOR_ID",
    f"{VOLUME.format('persistentVolumeClaim')}.mount.path": MOUNT,
    f"{VOLUME.format('persistentVolumeClaim')}.mount.readOnly": "false",
    "spark.mooring.location.provider": "volume",
    **STORE,
}


class KubernetesJob(RestartedJob):
    """A job whose hosts are nodes."""

    cluster: KubernetesCluster

    def host_of(self, executor: ExecutorProcess) -> str:
        """The node of an executor."""
        return self.cluster.node_of(executor)

    def pod_of(self, executor: ExecutorProcess) -> str:
        """The name of the pod of an executor that lives."""
        pods = self.cluster.pods("spark-role=executor")
        return next(str(pod["metadata"]["name"]) for pod in pods if pod["status"].get("podIP") == executor.host)

    def locations(self) -> list[str]:
        """The location of each processor that has an executor."""
        return sorted(found["location"] for found in self.load.status()["processors"] if found.get("executor"))

    def openings(self) -> list[dict[str, int]]:
        """The reads of each opening of a state store so far, in order of time."""
        return opened("\n".join(self._lines_of_openings()))

    def _lines_of_openings(self) -> list[str]:
        logs = (log.read_text(errors="replace") for log in self.cluster.work_dir.glob("pods/*/log"))
        lines = [line for log in logs for line in log.splitlines() if "Mooring: opened " in line]
        return sorted(lines, key=lambda line: line[: len("26/01/31 12:00:00")])

    def wait_for_executors(self, number: int) -> None:
        """Wait until the driver has so many executors, and no others live."""
        self.job.wait_until(
            lambda: len(self.job.executors()) == len(self.executors()) == number, f"{number} executors", 180
        )

    def wait_for_successor(self, lost: ExecutorProcess, number: int) -> None:
        """Wait until this executor is gone, and the plan has so many executors without it."""

        def are_here() -> bool:
            found = [processor.get("executor") for processor in self.load.status()["processors"]]
            return not lost.is_alive and lost.id not in found and len([id for id in found if id]) == number

        self.job.wait_until(are_here, f"the successor of executor {lost.id}", 180)

    def end(self) -> None:
        """End the job, and wait until its pods are gone."""
        ours = f"spark-app-selector={self.job.application}"
        self.job.terminate()
        wait_until(lambda: not self.cluster.pods(ours), "the pods to be gone", 60)
