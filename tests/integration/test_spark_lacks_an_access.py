"""A Spark without a member that Mooring reaches by reflection: one capability is off, and everything else works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.integration.support import answers
from tests.integration.support.restarted_job import FORMAT_KEY, PROVIDER_KEY, STOCK_ROCKSDB, Stages, said
from tests.integration.support.short_lived_settings import SHORT_LIVED
from tests.integration.support.store_with_open_copy import scala_object

pytestmark = pytest.mark.one_jvm

IS_OFF = f" is off, as Spark {pyspark.__version__} has no "


def without(*accesses: str) -> dict[str, str]:
    """Settings of an application whose JVM takes these accesses for missing."""
    hidden = f"-Dmooring.test.hidden-internals={','.join(accesses)}"
    return {key: f"{options} {hidden}" for key, options in SHORT_LIVED.items()}


def test_this_spark_has_every_member_that_is_reached(jvm: Any) -> None:
    lines = scala_object(jvm, "org.apache.spark.shims.SparkSelfCheck").lines()
    assert lines.isEmpty(), lines.mkString("\n")


def test_a_capability_is_off_where_spark_lacks_its_member(tmp_path: Path) -> None:
    stages = Stages(tmp_path)
    log = stages.run(1.0, without("MicroBatchExecution.watermarkTracker"))
    assert said(log, f"drain{IS_OFF}MicroBatchExecution.watermarkTracker: ") == 1
    assert said(log, IS_OFF) == 1, "driver and executor are one JVM here"
    assert said(log, "Spark goes on without it") == 0
    assert stages.kept_files(".zip"), "the host still keeps state files"
    stages.assert_right()


@pytest.mark.heavy
def test_transform_with_state_runs_on_stock_rocksdb_where_spark_lacks_its_member(tmp_path: Path) -> None:
    stages, lacks = Stages(tmp_path, "transform_with_state", "winners"), "SUPPORTED_STATE_STORE_PROVIDERS"
    stages.run(0.4)
    for part in (0.7, 1.0):
        log = stages.run(part, without(f"TransformWithStateExecBase.{lacks}"))
        assert said(log, "host affinity of transformWithState is off") == 1
    stages.assert_right(answers.transform_with_state)


@pytest.mark.heavy
@pytest.mark.parametrize("provider", [{}, {PROVIDER_KEY: STOCK_ROCKSDB}], ids=["no provider chosen", "RocksDB"])
def test_mooring_without_any_member_runs_as_stock_spark(provider: dict[str, str], jvm: Any, tmp_path: Path) -> None:
    declared = scala_object(jvm, "org.apache.spark.shims.SparkInternals").accesses()
    accesses = [declared.apply(number) for number in range(declared.size())]
    names = [access.name() for access in accesses]
    capabilities = {access.capability().toString() for access in accesses}
    assert len(names) > 20 and len(capabilities) > 10
    stages = Stages(tmp_path)
    for part in (0.5, 1.0):
        log = stages.run(part, {**without(*names), **provider, FORMAT_KEY: "2"})
        assert said(log, IS_OFF) == len(capabilities), "one line for each capability"
        assert said(log, "Spark goes on without it") == 0
    stages.assert_right()
