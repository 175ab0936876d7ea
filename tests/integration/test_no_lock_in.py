"""A checkpoint belongs to its owner: stock Spark's is adopted as it is and given back as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.support import answers
from tests.integration.support.restarted_job import (
    FORMAT_KEY,
    PROVIDER_KEY,
    STOCK_HDFS,
    STOCK_ROCKSDB,
    Stages,
    in_progress,
    opened,
    said,
)

pytestmark = pytest.mark.one_jvm

CHOSEN = {PROVIDER_KEY: STOCK_ROCKSDB}


@pytest.mark.heavy
def test_plugin_on_off_and_on_again(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    stages.run(0.4)
    # Ours makes checkpoints of format 2; stock Spark has to be told, as docs/operate/leaving-mooring.md says.
    stages.run(0.7, {**CHOSEN, FORMAT_KEY: "2"}, plugin=False)
    stages.run(1.0)
    stages.assert_right()


@pytest.mark.heavy
def test_transform_with_state_on_off_and_on_again(tmp_path: Path) -> None:
    stages = Stages(tmp_path, "transform_with_state", "winners")
    stages.run(0.4)
    stages.run(0.7, {**CHOSEN, FORMAT_KEY: "2"}, plugin=False)
    stages.run(1.0)
    stages.assert_right(answers.transform_with_state)


@pytest.mark.heavy
def test_a_checkpoint_of_stock_rocksdb_is_adopted_and_its_format_stays(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    stages.run(0.4, CHOSEN, plugin=False)
    stages.run(0.7)
    versions = [path.name for path in (stages.checkpoint / "state").rglob("*.zip")]
    assert versions and all(name.removesuffix(".zip").isdigit() for name in versions), "format v1 has no unique ids"
    assert stages.kept_files(".sst"), "files with names of their own are shared all the same"
    assert not stages.kept_files(".zip")
    stages.run(1.0, CHOSEN, plugin=False)
    stages.assert_right()


@pytest.mark.heavy
def test_a_checkpoint_of_the_hdfs_backed_provider_keeps_it(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    stages.run(0.5, {PROVIDER_KEY: STOCK_HDFS}, plugin=False)
    log = stages.run(1.0)
    assert said(log, f"{STOCK_HDFS} is left as it was chosen") == 1
    assert list((stages.checkpoint / "state").rglob("*.delta"))
    assert not stages.kept_files("")
    stages.assert_right()


@pytest.mark.heavy
def test_the_offset_log_never_names_our_provider(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    stages.run(0.5)
    for entry in (stages.checkpoint / "offsets").glob("[0-9]*"):
        assert "io.mooring" not in entry.read_text() and STOCK_ROCKSDB in entry.read_text()


@pytest.mark.heavy
@pytest.mark.parametrize("changelog", ["true", "false"])
def test_a_restart_reads_no_snapshot_from_the_checkpoint(tmp_path: Path, changelog: str) -> None:
    stages = Stages(tmp_path)
    conf = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": changelog}
    stages.run(0.5, conf)
    log = stages.run(1.0, conf)
    openings = opened(log)
    assert len(openings) >= 3, "each of the three partitions was opened from files"
    remote = ("remote-files", "remote-bytes", "remote-changelogs")
    assert sum(opening[kind] for opening in openings for kind in remote) == 0
    assert sum(opening["local-files"] + opening["local-changelogs"] for opening in openings) > 0
    local_bytes = sum(opening["local-bytes"] for opening in openings)
    assert sum(in_progress(log, "mooring.restore-bytes-local")) == local_bytes
    assert sum(in_progress(log, "mooring.restore-bytes-remote")) == 0
    stages.assert_right()
