"""`mooring export CHECKPOINT --to TABLE`: the state of an operator as a Delta table."""

from __future__ import annotations

import argparse
import time
from typing import Final

from mooring.checkpoint import Proofs, Survey, described, state_table
from mooring.checkpoint.state_files import Operator, operators_in
from mooring.checkpoint.state_table import Part
from mooring.cli import options
from mooring.cli.checkpoint_place import INSTEAD, checkpoint_directory
from mooring.cli.exits import BadUsage, CommandFailed
from mooring.cli.output import ProgressLine, counted, print_json
from mooring.errors import CheckpointNotUnderstood

NAME: Final = "export"
HELP: Final = "write the state of an operator to a Delta table, for audits or a changed query"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this command."""
    options.add_checkpoint(parser)
    parser.add_argument(
        "--to", metavar="TABLE", required=True, help="a path, or the name of a table in Spark's catalog"
    )
    parser.add_argument("--operator", metavar="ID", type=int, help="the operator, for a query with several")
    parser.add_argument("--batch", metavar="N", type=int, help="the batch whose state is written (default: the newest)")
    parser.add_argument("--join-side", choices=["left", "right"], help="the side of a join")
    parser.add_argument("--state-variable", metavar="NAME", help="the variable of a transformWithState")
    parser.add_argument(
        "--conf", metavar="KEY=VALUE", action="append", default=[], help="a setting of the Spark that writes the table"
    )
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> None:
    """Write the table.

    BadUsage when the checkpoint lacks the batch, the operator, the side or the variable; CommandFailed when its state
    is not whole; CheckpointNotUnderstood when this version cannot judge that.
    """
    checkpoint = checkpoint_directory("CHECKPOINT", arguments.checkpoint, INSTEAD)
    conf = dict(_setting(text) for text in arguments.conf)
    with Proofs() as proofs:
        survey = Survey(checkpoint, proofs.lineage)
        batch = arguments.batch if arguments.batch is not None else max(survey.committed, default=-1)
        if batch not in survey.committed:
            kept = described(survey.committed)
            raise BadUsage(f"--batch {batch}: expected a committed batch that is kept: {kept}")
        obstacles = survey.obstacles_to(batch)
        if survey.judgement_of(batch).unknown:
            raise CheckpointNotUnderstood(f"the state after batch {batch}: {survey.judgement_of(batch).unknown[0]}")
        if obstacles:
            possible = described(survey.whole_batches())
            raise CommandFailed(f"the state after batch {batch} is not whole: {obstacles[0]}; possible: {possible}")
    operator = _operator(operators_in(checkpoint, batch), arguments.operator)
    part = Part(checkpoint, batch, operator, arguments.join_side, arguments.state_variable)
    state_table.refuse_incomplete(part)
    progress = ProgressLine(time.monotonic)
    if not arguments.json:
        progress.show("starting Spark")
    with state_table.session(conf) as spark:
        rows = state_table.read(spark, part)
        written = state_table.write(rows, arguments.to)
        schema = rows.schema.simpleString()
    if arguments.json:
        print_json({"table": arguments.to, "batch": batch, "operator": operator.id, "rows": written, "schema": schema})
    else:
        what = f"{counted(written, 'row')} of operator {operator.id} ({operator.kind}) after batch {batch}"
        progress.say(f"{arguments.to}: {what}, {schema}")


def _operator(operators: tuple[Operator, ...], wanted: int | None) -> Operator:
    names = ", ".join(f"{operator.id} ({operator.kind})" for operator in operators) or "none: the query keeps no state"
    found = [operator for operator in operators if wanted in (None, operator.id)]
    if len(found) != 1:
        given = "without --operator" if wanted is None else f"--operator {wanted}"
        raise BadUsage(f"{given}: expected one of the checkpoint's operators: {names}")
    return found[0]


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise BadUsage(f"--conf {text}: expected a setting of Spark's, as spark.hadoop.fs.s3a.endpoint=…")
    return key, value
