"""A driver whose shared store does not answer at its start, or refuses it: the query runs all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.metadata import open_metadata_store
from mooring.testing.probes import free_port
from mooring.testing.zookeeper import ZooKeeperEnsemble
from tests.integration.support.restarted_job import Stages, said

UNKNOWN = "it is not known whether another driver of this job leads"
STORE = "spark.mooring.metadata"


def test_a_misspelt_option_stops_the_application_at_its_start(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {STORE: "zk://127.0.0.1:1/job", f"{STORE}.timout": "5s"}, expect=1)
    assert "spark.mooring.metadata.timout" in log and "nearest: timeout" in log


@pytest.mark.heavy
@pytest.mark.parametrize("scheme", ["zk", "kafka"])
def test_nobody_at_the_address(tmp_path: Path, scheme: str) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, {STORE: f"{scheme}://127.0.0.1:{free_port()}/job"})
    assert said(log, UNKNOWN) == 1
    assert said(log, "takes no part in the election for now") == 1
    stages.assert_right()


@pytest.mark.heavy
def test_a_wrong_password(tmp_path: Path, ensemble: ZooKeeperEnsemble) -> None:
    place = f"zk://{ensemble.hosts}/{tmp_path.name}"
    with open_metadata_store(place, auth="digest:mooring", **{"auth.password": "the right one"}) as owner:
        owner.put("key", b"")
    stages = Stages(tmp_path)
    log = stages.run(1.0, {STORE: place, f"{STORE}.auth": "digest:mooring", f"{STORE}.auth.password": "a wrong one"})
    assert said(log, UNKNOWN) == 1
    assert said(log, "no permission") == 1
    assert not [line for line in log.splitlines() if "Mooring" in line and "a wrong one" in line]
    stages.assert_right()
