"""An application whose driver runs in a pod."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mooring.errors import ClusterError
from mooring.testing.kubernetes_api import ApiClient, ApiRefused
from mooring.testing.processes import RunningProcess, descendants, first_below, running_processes
from mooring.testing.servers import ChildProcess
from mooring.testing.submission import Submission

Json = dict[str, Any]

_LOG_SHOWN = 6_000
_UI_PORT = 4040  # Spark's own; each pod has an address of its own


class DriverOnKubernetes(Submission):
    """An application that was submitted in cluster mode; `process` only waits for its end."""

    def __init__(
        self,
        process: ChildProcess,
        api: ApiClient,
        namespace: str,
        pod: str,
        logs: Callable[[str], list[Path]],
        pid: Callable[[str], int | None],
    ) -> None:
        """`logs` gives the logs of a pod, and `pid` its first process while that runs."""
        super().__init__(process, "")
        self.pod_name = pod
        self._api = api
        self._namespace = namespace
        self._logs = logs
        self._pid = pid

    @property
    def log(self) -> str:
        """The output of the driver so far, then that of `spark-submit`."""
        files = [*self._logs(self.pod_name), self.process.log]
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def pod(self) -> Json | None:
        """The driver's pod, as the API has it; None before it is made and after it is gone."""
        try:
            return self._api.get(self._namespace, "pods", self.pod_name)
        except ApiRefused as refused:
            if refused.code == 404:
                return None
            raise

    @property
    def application(self) -> str:
        """The application's id. Waits for the driver's pod to run."""
        if not self._application:
            self.wait_until(self._has_an_address, "the driver's pod to run")
        return self._application

    def _has_an_address(self) -> bool:
        pod = self.pod()
        address = pod["status"].get("podIP") if pod else None
        if pod and address:
            self._application = pod["metadata"]["labels"]["spark-app-selector"]
            self.ui_url = f"http://{address}:{_UI_PORT}"
        return bool(address)

    def rest(self, path: str) -> Any:
        """The JSON of Spark's REST interface, at the address of the driver's pod."""
        assert self.application  # with it comes the address
        return super().rest(path)

    def mooring_metrics(self) -> dict[str, float]:
        """As in client mode, from the driver's pod."""
        assert self.application  # with it comes the address
        return super().mooring_metrics()

    def finish(self, timeout: float = 300.0) -> None:
        """Wait until the driver's pod has succeeded. `ClusterError` with the log's end when it has not."""
        code = self.wait(timeout)
        pod = self.pod()
        phase = pod["status"]["phase"] if pod else "gone"
        if code != 0 or phase != "Succeeded":
            log = "".join(file.read_text(errors="replace") for file in self._logs(self.pod_name))
            end = log[-_LOG_SHOWN:]
            raise ClusterError(f"the driver's pod {self.pod_name} is {phase}\n{end}\n{self.process.story()}")
        self.process.kill()

    def driver(self) -> RunningProcess | None:
        """The driver's JVM; None while there is none."""
        pid = self._pid(self.pod_name)
        found = [] if pid is None else [each for each in running_processes() if each.pid == pid] + descendants(pid)
        return next((each for each in found if "org.apache.spark.deploy.SparkSubmit" in each.command), None)

    def helper(self, word: str) -> RunningProcess | None:
        """The first process below the driver with this word in its command line; None while there is none."""
        driver = self.driver()
        return first_below(driver.pid, word) if driver else None

    def kill_driver(self) -> None:
        """Kill -9 of the driver's JVM, and with it of its pod's processes. Kubernetes starts no other one."""
        driver = self.driver()
        if driver is None:
            raise ClusterError(f"{self.pod_name} has no driver now")
        os.kill(driver.pid, signal.SIGKILL)

    def terminate(self, timeout: float = 30.0) -> None:
        """Delete the driver's pod, as `kubectl delete` does: SIGTERM, and kill -9 after `timeout` seconds."""
        self._delete(int(timeout))
        self.process.stop(timeout)

    def kill(self) -> None:
        """Delete the driver's pod by force."""
        self._delete(0)
        super().kill()

    def _delete(self, grace_s: int) -> None:
        try:
            self._api.delete(self._namespace, "pods", self.pod_name, {"gracePeriodSeconds": grace_s})
        except ApiRefused as refused:
            if refused.code != 404:  # 404: it is gone
                raise
