"""A host keeps the files of the newest versions, and not of every version that the checkpoint has."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.integration.support.job_with_warm_copies import CHANGELOG
from tests.integration.support.restarted_job import Stages, opened

OFTEN = {
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
}


@pytest.mark.heavy
@pytest.mark.parametrize("changelog", ["false", "true"])
def test_a_host_keeps_only_files_that_the_newest_snapshots_need_and_opens_stores_from_them(
    tmp_path: Path, changelog: str
) -> None:
    stages = Stages(tmp_path)
    conf = {CHANGELOG: changelog, **OFTEN}
    stages.run(0.5, conf)
    log = stages.run(1.0, conf)
    assert opened(log) and all(store["remote-files"] + store["remote-changelogs"] == 0 for store in opened(log))
    stages.assert_right()
    directories = {path.parent for path in stages.kept_files(".zip")}
    assert len(directories) == 3
    for directory in directories:
        kept = {path.name.split("~")[0]: path for path in directory.iterdir() if "~" in path.name}
        in_checkpoint = stages.checkpoint / "state" / directory.parent.parent.name / directory.parent.name
        archives = sorted((name for name in kept if name.endswith(".zip")), key=_version)
        needed = [set(_sst_files(kept[archive])) for archive in archives[-4:]]
        files = {name for name in kept if name.endswith(".sst")}
        assert set().union(*needed[-2:]) <= files, "files that the newest two snapshots need"
        assert files <= set().union(*needed), "no others, except files that were not removed yet when the job ended"
        assert len(files) < len(list((in_checkpoint / "SSTs").glob("*.sst"))), "the checkpoint has more of them"
        assert all(_version(name) >= _version(archives[-4]) for name in kept if name.endswith(".changelog"))


def _version(name: str) -> int:
    return int(name.split("_")[0])


def _sst_files(archive: Path) -> list[str]:
    with ZipFile(archive) as files:
        metadata = json.loads(files.read("metadata").decode().split("\n", 1)[1])
    return [file["dfsSstFileName"] for file in metadata["sstFiles"]]
