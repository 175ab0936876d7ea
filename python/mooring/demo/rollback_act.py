"""An act of the demo: the query goes back some batches, reads the same input again, and writes the same rows."""

from __future__ import annotations

import time
from collections.abc import Callable

from mooring.checkpoint import Proofs, Survey, described, plan_rollback, rollback
from mooring.demo.answer import compare, offline_answer, written_rows
from mooring.demo.readings import Measures, mb
from mooring.demo.scene import Scene

BATCHES_BACK = 4


def go_back(scene: Scene, show: Callable[..., Measures]) -> Measures:
    """Read the checkpoint of the stopped query, undo its last batches, and start it again."""
    checkpoint = scene.checkpoint.directory
    with Proofs() as proofs:
        survey = Survey(checkpoint, proofs.lineage)
        whole = survey.whole_batches()
        last = max(survey.commits)
        show(
            "history",
            f"mooring history: {len(survey.commits)} batches, back to {described(whole)};"
            f" {mb(survey.state_bytes(last) or 0)} of state after the last",
            batches=len(survey.commits),
            whole=list(whole),
        )
        to_batch = whole[max(-1 - BATCHES_BACK, -len(whole))]
        plan = plan_rollback(survey, to_batch)
        rollback.carry_out(plan)
    begin = time.time()
    scene.start_application()
    scene.wait_for_files(len(scene.feed.given))
    seconds = round(time.time() - begin, 1)
    scene.stop_application()
    found, twice = written_rows(scene.output, scene.checkpoint.commits())
    result = compare(found, offline_answer(scene.feed.given)[1], twice)
    verdict = "equal, row for row," if result.is_equal else f"NOT EQUAL ({result})"
    return show(
        "rollback",
        f"mooring restore: back to batch {to_batch}, {len(plan.batches)} batches undone; {seconds:.1f} s after its"
        f" start the query had read the same files again: {result.rows} rows, {verdict} to the answer computed without"
        " Spark",
        **{
            "to-batch": to_batch,
            "undone": len(plan.batches),
            "rows-out": result.rows,
            "equal": result.is_equal,
            "seconds": seconds,
        },
    )
