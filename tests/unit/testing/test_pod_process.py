"""How the container of a deleted pod ends."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from mooring.testing.kubernetes_pod_spec import DECOMMISSION_SCRIPT
from mooring.testing.pod_process import PodProcess

HOOK = {"lifecycle": {"preStop": {"exec": {"command": [DECOMMISSION_SCRIPT]}}}}


class Ending(PodProcess):
    """A container without a process, and a clock that the test moves."""

    def __init__(self, **container: Any) -> None:
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i", **container}]}
        self.now, self.heard = 0.0, []
        meta = {"name": "p", "namespace": "default", "uid": "u"}
        super().__init__({"metadata": meta, "spec": spec}, Path("unused"), "127.1.0.1", clock=lambda: self.now)

    def _signal(self, number: signal.Signals) -> None:
        self.heard.append((self.now, number.name))

    def kill(self) -> None:
        self.heard.append((self.now, "SIGKILL"))

    def end_until_killed(self, grace_s: float) -> list[tuple[float, str]]:
        while not self.heard or self.heard[-1][1] != "SIGKILL":
            self.end(grace_s)
            self.now += 0.5
        return self.heard


def test_a_process_is_asked_first_and_killed_after_its_grace() -> None:
    assert Ending().end_until_killed(5) == [(0.0, "SIGTERM"), (5.0, "SIGKILL")]


def test_without_a_grace_it_is_killed_at_once() -> None:
    assert Ending().end_until_killed(0)[-1] == (0.0, "SIGKILL")


def test_the_hook_comes_first_and_may_take_all_of_the_grace() -> None:
    heard = Ending(**HOOK).end_until_killed(10)
    assert heard == [(0.0, "SIGPWR"), (10.0, "SIGTERM"), (12.0, "SIGKILL")]


def test_the_hook_ends_by_itself_and_leaves_the_rest_of_a_longer_grace() -> None:
    heard = Ending(**HOOK).end_until_killed(60)
    assert heard == [(0.0, "SIGPWR"), (30.0, "SIGTERM"), (60.0, "SIGKILL")]


def test_a_second_deletion_with_a_shorter_grace_comes_sooner() -> None:
    container = Ending()
    container.end(60)
    container.now = 1.0
    assert container.end_until_killed(2) == [(0.0, "SIGTERM"), (3.0, "SIGKILL")]
