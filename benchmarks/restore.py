"""A query starts again on hosts that have lost its state, all of them or one. How long is it until the first commit?

State and applications are those of `restart`. But before each start the local stores are emptied: on both hosts, as
with a new cluster, or on one, as when one host was replaced. Stock Spark keeps nothing, so for it the two are the same.
Warm JVMs have run such a query before, so that the state takes most of the time. In new JVMs the first batch loads and
compiles code for seconds.

    first-commit-seconds   from the query's start to the first batch's file in the checkpoint's commits
    from-submit-seconds    the same from spark-submit, with new JVMs
    planning-seconds, add-batch-seconds  the first batch's planning, and its jobs
    remote-bytes           bytes of snapshots, SST and log files read from the checkpoint, by the side's own count
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks import restart
from benchmarks.figures import Row

WARM = restart.Plan(sizes_gb=(0.1, 0.5, 1.0), restarts=2, copies={"slow": (1, 1)}, cold_hosts=(2, 1), is_warm=True)
FULL = (WARM, replace(WARM, restarts=1, cold_hosts=(2,), is_warm=False))
QUICK = (replace(WARM, sizes_gb=(0.1,), restarts=1, cold_hosts=(2,)),)

_NAMES = {
    "query-to-commit-seconds": "first-commit-seconds",
    "first-commit-seconds": "from-submit-seconds",
    "planning-seconds": "planning-seconds",
    "add-batch-seconds": "add-batch-seconds",
    "remote-bytes": "remote-bytes",
}


def run(quick: bool) -> dict[str, Any]:
    """The entry point for the command line."""
    results = [(plan, restart.measure(plan)) for plan in (QUICK if quick else FULL)]
    rows = [made for plan, result in results for measured in result["rows"] if (made := _row(measured, plan))]
    return {**results[0][1], "name": "restore", "rows": rows}


def _row(of_restart: Row, plan: restart.Plan) -> Row | None:
    name = _NAMES.get(of_restart["figure"])
    if name is None or (plan.is_warm and name == "from-submit-seconds"):
        return None
    return {**of_restart, "figure": name, "jvms": "warm" if plan.is_warm else "new"}
