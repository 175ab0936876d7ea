"""Checkpoints that go from stock Spark to Mooring, from line to line of Spark, and back to stock."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.support import answers
from tests.integration.support.restarted_job import (
    FORMAT_KEY,
    PROVIDER_KEY,
    STOCK_ROCKSDB,
    Stages,
    opened,
)
from tests.versions.sparks import LINES, UPGRADES, spark_of

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]

JOBS = {
    "windowed_aggregation": ("counts", answers.windowed_aggregation),
    "transform_with_state": ("winners", answers.transform_with_state),
    "left_outer_join": ("joined", answers.left_outer_join),
}
FORMATS = ("1", "2")


def stock(format: str) -> dict[str, str]:
    return {PROVIDER_KEY: STOCK_ROCKSDB, FORMAT_KEY: format}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(("line", "next_line"), UPGRADES, ids=lambda line: line)
def test_a_checkpoint_of_stock_spark_goes_up_a_line_with_mooring_and_is_read_by_stock_there(
    job: str, format: str, line: str, next_line: str, tmp_path: Path
) -> None:
    older, newer = spark_of(line), spark_of(next_line)
    output, answer = JOBS[job]
    stages = Stages(tmp_path, job, output)
    stages.run(0.25, stock(format), plugin=False, spark=older)
    for part, spark in ((0.5, older), (0.75, newer)):
        log = stages.run(part, spark=spark)
        assert opened(log), f"Mooring's provider opens the state on Spark {spark.version}"
    stages.run(1.0, stock(format), plugin=False, spark=newer)
    stages.assert_right(answer)


@pytest.mark.parametrize("wanted", FORMATS)
@pytest.mark.parametrize("begun", FORMATS)
@pytest.mark.parametrize("line", LINES)
def test_a_checkpoint_of_one_format_where_the_conf_names_another_ends_no_worse_than_with_stock(
    line: str, begun: str, wanted: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    spark, ends = spark_of(line), {}
    for name in ("stock", "mooring"):
        stages = Stages(tmp_path / name)
        stages.run(0.5, stock(begun), plugin=False, spark=spark)
        log = stages.run(1.0, stock(wanted), plugin=name == "mooring", spark=spark, expect=None)
        ends[name] = _end(stages, log)
        record_property(name, ends[name])
    assert ends["mooring"] in ("right", ends["stock"]), ends


def _end(stages: Stages, log: str) -> str:
    """`right`, or the class of the exception that ended the query; `wrong` where none did."""
    try:
        stages.assert_right()
    except AssertionError:
        classes = re.findall(r"([A-Z]\w+(?:Exception|Error))\b", log)
        return str(classes[-1]) if classes else "wrong"
    return "right"
