"""Maintenance that runs all the time, beside batches, copies and lost executors: no task misses a file.

MOORING_TEST_MINUTES says how long. From Spark 4.3 on, snapshots and clean-up of one store may run at once.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from mooring.cli.main import main
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
MISSING = re.compile(
    "FileNotFound|NoSuchFile|CANNOT_LOAD_STATE_STORE|CANNOT_READ_[A-Z_]*FILE|SNAPSHOT_FILE_ID"
    # Spark goes on after its maintenance has failed, and an executor's log has one of these lines.
    "|Ignoring error while performing maintenance|Error managing "
)


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
        lost_tasks = [line for line in here.job.log.splitlines() if "Lost task" in line]
    logs = (log.read_text(errors="replace") for log in here.cluster.work_dir.rglob("stderr"))
    of_executors = [line for log in logs for line in log.splitlines() if not line.startswith("\tat ")]
    assert [line for line in lost_tasks + of_executors if MISSING.search(line)] == []
    assert main(["verify", str(load.checkpoint), "--all"]) == 0, "and the checkpoint has every file"
