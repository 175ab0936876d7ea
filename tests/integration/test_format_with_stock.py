"""A repartitioned checkpoint goes on with stock Spark, and with Mooring again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.integration.support.application_in_one_jvm import application
from tests.integration.support.restarted_job import FORMAT_KEY
from tests.integration.support.state_formats import (
    CHANGELOGS,
    FORMATS,
    Checkpoints,
    answer,
    counts,
    forget_commit,
    read_state,
    repartition,
    run,
)

pytestmark = [pytest.mark.heavy, pytest.mark.one_jvm]


def test_a_repartitioned_checkpoint_goes_on_with_stock_spark(tmp_path: Path) -> None:
    ready: dict[tuple[str, bool], Path] = {}
    with application("formats", tmp_path, CHANGELOGS) as spark:
        checkpoints = Checkpoints(spark, tmp_path)
        for format in FORMATS:
            for skips in (False, True):
                checkpoint = ready[format, skips] = checkpoints.copy(format)
                if skips:
                    forget_commit(checkpoint, 1)
                repartition(checkpoints.session(None), checkpoint, enforce_exactly_once_sink=not skips)
    with stock(tmp_path) as spark:
        for (format, skips), checkpoint in ready.items():
            session = spark.newSession()
            session.conf.set(FORMAT_KEY, format)
            assert run(session, checkpoint) == answer(2 if skips else 3)
            # Only now: stock Spark 4.2.0 reads no snapshot in an application that has not yet run a query with state.
            assert counts(read_state(session, checkpoint)) == answer(2 if skips else 3)
    with application("formats", tmp_path, CHANGELOGS) as spark:
        for (_, skips), checkpoint in ready.items():
            assert run(spark.newSession(), checkpoint) == answer(3 if skips else 4), "and with Mooring again"


@contextmanager
def stock(here: Path) -> Iterator[SparkSession]:
    """The same application without the plugin."""
    with application("stock", here, {**CHANGELOGS, "spark.plugins": ""}) as spark:
        assert spark.conf.get("spark.sql.extensions", None) is None, "Mooring is not there"
        yield spark
