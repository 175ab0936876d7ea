"""A driver that ended after a batch's sink had taken it and before its commit was logged: the batch is repeated."""

from __future__ import annotations

import pytest

from tests.integration.support import answers
from tests.integration.support.restarted_job import FORMAT_KEY, PROVIDER_KEY, STOCK_ROCKSDB, Stages, said

pytestmark = [pytest.mark.one_jvm, pytest.mark.heavy]

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def lose_the_last_commit(stages: Stages) -> int:
    """As if the driver had ended just before it; the batch."""
    commits = stages.checkpoint / "commits"
    last = max(int(entry.name) for entry in commits.iterdir() if entry.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


@pytest.mark.parametrize("changelog", ["false", "true"])
def test_a_sink_that_has_the_batch_skips_it_and_the_query_goes_on(tmp_path, changelog):
    stages = Stages(tmp_path)
    conf = {CHANGELOG: changelog}
    stages.run(0.6, conf)
    batch = lose_the_last_commit(stages)
    log = stages.run(1.0, conf)
    assert f"Skipping already committed batch {batch}" in log
    assert said(log, "could not be looked at") == 0
    stages.assert_right()


@pytest.mark.parametrize(
    ("job", "output"),
    [("inner_join", "joined"), ("left_outer_join", "joined"), ("transform_with_state", "winners")],
)
def test_other_operators(tmp_path, job, output):
    stages = Stages(tmp_path, job, output)
    stages.run(0.6)
    batch = lose_the_last_commit(stages)
    assert f"Skipping already committed batch {batch}" in stages.run(1.0)
    stages.assert_right(getattr(answers, job))


def test_a_sink_that_does_not_have_the_batch_gets_what_is_computed_now(tmp_path):
    stages = Stages(tmp_path)
    stages.run(0.6)
    batch = lose_the_last_commit(stages)
    for name in (str(batch), f".{batch}.crc"):
        (stages.outputs / "counts" / "_spark_metadata" / name).unlink(missing_ok=True)
    assert f"Skipping already committed batch {batch}" not in stages.run(1.0)
    stages.assert_right()


def test_a_first_batch_of_stock_spark_keeps_its_format(tmp_path):
    stages = Stages(tmp_path)
    stages.run(0.2, {PROVIDER_KEY: STOCK_ROCKSDB}, plugin=False)
    for log in (
        stages.checkpoint / "commits",
        stages.checkpoint / "offsets",
        stages.outputs / "counts/_spark_metadata",
    ):
        keep = set() if log.name == "commits" else {"0", ".0.crc"}
        for entry in log.iterdir():
            if entry.name not in keep:
                entry.unlink()
    assert "Skipping already committed batch 0" in stages.run(1.0)
    stages.assert_right()


def test_stock_spark_ends_the_query(tmp_path):
    """When this fails Spark has mended it, and `EarlierAttempt` can go."""
    stages = Stages(tmp_path)
    stock = {PROVIDER_KEY: STOCK_ROCKSDB, FORMAT_KEY: "2"}
    stages.run(0.6, stock, plugin=False)
    lose_the_last_commit(stages)
    log = stages.run(1.0, stock, plugin=False, expect=1)
    assert "assertion failed: CheckpointInfo length: 0" in log
