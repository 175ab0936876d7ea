"""Writes the state of one operator as a Delta table, with Spark's own reader of state.

Key and value are structs with the state's own schema. The reader can read an operator's whole state, one side of a
join, or one variable of `transformWithState`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mooring.checkpoint.logs import read_commit
from mooring.checkpoint.spark_start import first_line, start
from mooring.checkpoint.state_files import STATE, Operator
from mooring.errors import CheckpointError
from mooring.installed_spark import installed_spark, line_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINES_WITH_DELTA: Final = ("4.0", "4.1", "4.2")
"""The lines of Spark for which Delta 4.4.0 has a jar."""

JOIN: Final = "symmetricHashJoin"
SIDES: Final = ("left", "right")
_WITH_VARIABLES: Final = "transformWithState"


def delta_package() -> str:
    """The package of Delta for the installed Spark, for `--packages`. CheckpointError where there is none."""
    spark = installed_spark()
    line = None if spark is None else line_of(spark.version)
    if spark is not None and line not in LINES_WITH_DELTA:
        raise CheckpointError(
            f"there is no Delta for Spark {spark.version} yet: expected Spark {', '.join(LINES_WITH_DELTA)}"
        )
    return f"io.delta:delta-spark_{line or LINES_WITH_DELTA[-1]}_2.13:4.4.0"


@dataclass(frozen=True, slots=True)
class Part:
    """The part of the state to read, as of a batch."""

    checkpoint: Path
    batch: int
    operator: Operator
    join_side: str | None = None
    variable: str | None = None

    def options(self) -> dict[str, str]:
        """The options of Spark's reader."""
        chosen = {"joinSide": self.join_side, "stateVarName": self.variable}
        named = {key: value for key, value in chosen.items() if value is not None}
        return {"batchId": str(self.batch), "operatorId": str(self.operator.id), **named}


def refuse_incomplete(part: Part) -> None:
    """CheckpointError where the operator's state has parts and none is named, or where the named part is not there."""
    kind = part.operator.kind
    is_join, has_variables = kind.startswith(JOIN), kind.startswith(_WITH_VARIABLES)
    where = f"operator {part.operator.id} ({kind})"
    if is_join and part.join_side not in SIDES:
        raise CheckpointError(f"{where} joins two sides: expected --join-side left or right")
    if not is_join and part.join_side is not None:
        raise CheckpointError(f"{where} is no join: expected no --join-side")
    if has_variables:
        names = variables_of(part.checkpoint, part.operator, part.batch)
        if part.variable not in names:
            raise CheckpointError(
                f"{where} keeps variables: expected --state-variable {' or '.join(names) or '(none)'}"
            )
    elif part.variable is not None:
        raise CheckpointError(f"{where} keeps no variables: expected no --state-variable")


def variables_of(checkpoint: Path, operator: Operator, batch: int) -> Sequence[str]:
    """The state variables of a `transformWithState`, by its newest description up to a batch."""
    directory = checkpoint / STATE / str(operator.id) / "_metadata" / "v2"
    try:
        numbers = sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())
        known = [number for number in numbers if number <= batch + 1]
        form = json.loads((directory / str(known[-1])).read_text(encoding="utf-8").partition("\n")[2])
        properties = json.loads(form["operatorPropertiesJson"])
        names = [str(variable["stateName"]) for variable in properties["stateVariables"]]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as fault:
        raise CheckpointError(
            f"{directory} does not say which variables operator {operator.id} keeps: {fault}"
        ) from fault
    return [name for name in names if not name.startswith("$")]


@contextmanager
def session(conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """A Spark session on this machine that can write Delta tables; Spark fetches the packages. `conf` overrides.

    CheckpointError where Spark does not start. Errors of Spark and Py4J inside the context become CheckpointErrors.
    """
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    ours = {
        "spark.master": "local[*]",
        "spark.app.name": "mooring",
        "spark.ui.enabled": "false",
        "spark.jars.packages": delta_package(),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    for key, value in {**ours, **conf}.items():
        builder = builder.config(key, value)
    spark = start(builder)
    spark.sparkContext.setLogLevel("ERROR")
    _ = spark.streams.active  # starts the coordinator of state stores, which the reader of state needs
    try:
        yield spark
    except Exception as fault:
        if type(fault).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise CheckpointError(f"Spark failed: {first_line(fault)}") from fault
    finally:
        spark.stop()


def read(spark: SparkSession, part: Part) -> DataFrame:
    """`partition_id`, `key` and `value` of each row of the state. CheckpointError when Spark's reader refuses it."""
    from pyspark.errors import PySparkException

    has_ids = bool(read_commit(part.checkpoint, part.batch).state_ids)
    spark.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "2" if has_ids else "1")
    try:
        return spark.read.format("statestore").options(**part.options()).load(str(part.checkpoint))
    except PySparkException as fault:
        raise CheckpointError(f"Spark does not read the state of {part.checkpoint}: {first_line(fault)}") from fault


def write(rows: DataFrame, table: str) -> int:
    """Write the rows as a new Delta table, at a path or under a catalog's name. Returns the table's number of rows.

    CheckpointError when the table exists already, or can not be written.
    """
    from pyspark.errors import PySparkException

    writer = rows.write.format("delta").mode("errorifexists")
    try:
        if "/" in table:
            writer.save(table)
            return rows.sparkSession.read.format("delta").load(table).count()
        writer.saveAsTable(table)
        return rows.sparkSession.table(table).count()
    except PySparkException as fault:
        raise CheckpointError(f"the table {table} can not be written: {first_line(fault)}") from fault
