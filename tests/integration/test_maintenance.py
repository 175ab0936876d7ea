"""Maintenance that runs all the time, beside batches, copies and lost executors: no task misses a file.

MOORING_TEST_MINUTES says how long. From Spark 4.3 on, snapshots and clean-up of one store may run at once.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from tests.integration.support.file_fed_job import Load
from tests.integration.support.job_with_operator import HOSTS
from tests.integration.support.job_with_warm_copies import CHANGELOG, warm
from tests.seeds import seeded

pytestmark = pytest.mark.heavy

MINUTES = float(os.environ.get("MOORING_TEST_MINUTES", "2"))
MOST = 12  # input files at once, and so batches
STATE = "spark.sql.streaming.stateStore"
CONF = {
    CHANGELOG: "true",
    f"{STATE}.maintenanceInterval": "100ms",
    f"{STATE}.minDeltasForSnapshot": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
}
MISSING = re.compile(r"FileNotFound|NoSuchFile|CANNOT_LOAD_STATE_STORE|CANNOT_READ_\w*FILE|SNAPSHOT_FILE_ID")


def test_no_task_misses_a_file(tmp_path: Path) -> None:
    chance = seeded("maintenance")
    files = max(60, round(MINUTES * 90))
    load = Load(tmp_path, files=files)
    with warm(tmp_path, CONF, load=load) as here:
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end and load.written + MOST < files:
            load.feed(here.job, files=chance.randrange(4, MOST))
            here.job.wait_until(load.is_idle, "the batches", 120)
            if chance.random() < 0.3:
                here.cluster.kill_executor(chance.choice(HOSTS), here.job.application)
                here.job.wait_for_executors(len(HOSTS))
        load.leave_out_the_rest()
        failed = [line for line in here.job.log.splitlines() if "Lost task" in line]
    assert [line for line in failed if MISSING.search(line)] == []
