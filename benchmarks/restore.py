"""A query is started again on hosts that have lost its state, all of them or one: how long until it commits.

The state is built, and the applications are run, as by `restart`; but what the hosts keep of it is removed before each
start: of both hosts, as when a cluster is made anew, and of one, as when a host was replaced and its neighbour is still
warm. Stock keeps nothing, so for it the two are the same. It is done with JVMs that have run such a query before, so
that little but the state counts, and with new ones, where the first batch loads and compiles code for seconds.

    first-commit-seconds   from the query's start to the first batch's file in the checkpoint's commits
    from-submit-seconds    the same from spark-submit, of new JVMs
    planning-seconds, add-batch-seconds  the first batch's planning, and its jobs
    remote-bytes           bytes of snapshots, SST and log files that were read from the checkpoint, by its own count
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
    """What the command line calls."""
    results = [(plan, restart.measure(plan)) for plan in (QUICK if quick else FULL)]
    rows = [made for plan, result in results for one in result["rows"] if (made := _row(one, plan))]
    return {**results[0][1], "name": "restore", "rows": rows}


def _row(one: Row, plan: restart.Plan) -> Row | None:
    name = _NAMES.get(one["figure"])
    if name is None or (plan.is_warm and name == "from-submit-seconds"):
        return None
    return {**one, "figure": name, "jvms": "warm" if plan.is_warm else "new"}
