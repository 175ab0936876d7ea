"""Reads and writes Delta tables with a Spark session of the agent's own, in the driver's application.

Rows go to the JVM as JSON, so no executor needs Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.catalogue.rows import is_path
from mooring.errors import AgentError
from mooring.spark.delta_kernel import KernelAppends, Row

_POOL: Final = "mooring-catalog"
_CATALOG: Final = "spark.sql.catalog.spark_catalog"
_KERNEL_TRIES: Final = 3
_NO_CATALOG: Final = "builtin"
_CONF: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # 10,000 tasks by default
}


_TABLE_PROPERTIES: Final = {  # Delta keeps a log for weeks, which takes long to list
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
}


class DeltaTables:
    """Delta tables, each named by its path or by its name in a catalog. Jobs run one at a time, in their own pool."""

    def __init__(self, jvm: Any, warn: Callable[[str], None] = lambda text: None) -> None:
        """`jvm` is Py4J's view of the driver; `warn` gets a line when a table is written at more cost than usual."""
        self._jvm, self._warn = jvm, warn
        self._kernel_failures: dict[str, int] = {}  # table -> how often in a row
        self._opened_session: Any = None
        self._kernel: KernelAppends | None = None

    def append(
        self, table: str, schema: str, partition_column: str, rows: Sequence[Row], writer: str, number: int
    ) -> None:
        """Add rows in one transaction. A missing table is made, with this partition column.

        The rows of one `writer` and `number` are written once; the numbers of a writer rise. Rows have values that JSON
        can hold. AgentError when the rows are not written, or when it is not known whether they are.
        """
        if (
            is_path(table)
            and self.exists(table)
            and self._kernel_appends(table, partition_column, rows, writer, number)
        ):
            return
        try:
            appending = self._frame(schema, rows).write().format("delta").mode("append")
            appending = appending.partitionBy(self._seq(partition_column)).option("txnAppId", writer)
            for key, value in _TABLE_PROPERTIES.items():
                appending = appending.option(key, value)
            self._save(appending.option("txnVersion", str(number)), table)
        except Exception as fault:  # Spark's, Delta's, Py4J's, the storage's
            raise AgentError(f"the Delta table {table} can not be written: {_first_line(fault)}") from fault

    def _kernel_appends(self, table: str, partition_column: str, rows: Sequence[Row], writer: str, number: int) -> bool:
        """Append with Delta's Kernel. False when that failed; then Spark's writer tries, under the same number."""
        if self._kernel_failures.get(table, 0) >= _KERNEL_TRIES:
            return False
        try:
            if self._kernel is None:
                if self._has_log_stores:  # Kernel does not use these: two writers might overwrite each other
                    raise AgentError("spark.delta.logStore is set")
                self._kernel = KernelAppends(self._jvm, self._session.sessionState().newHadoopConf())
            self._kernel.append(table, partition_column, rows, writer, number)
        except Exception as fault:  # of any class: Spark's writer tries next
            self._kernel = None
            self._kernel_failures[table] = self._kernel_failures.get(table, 0) + 1
            if self._kernel_failures[table] == _KERNEL_TRIES:
                self._warn(
                    f"the catalogue {table} is written by Spark from now on, at more cost ({_first_line(fault)})"
                )
            return False
        self._kernel_failures.pop(table, None)
        return True

    @property
    def _has_log_stores(self) -> bool:
        return len(self._session.sparkContext().getConf().getAllWithPrefix("spark.delta.logStore.")) > 0

    def select(self, table: str, columns: Sequence[str], where: str) -> list[Row] | None:
        """Columns, or aggregates, of the rows for which `where` holds; None where there is no table.

        Columns that are null are left out of a row. AgentError when the table can not be read.
        """
        try:
            if not self.exists(table):
                return None
            reader = self._session.read().format("delta")
            rows = reader.load(table) if is_path(table) else reader.table(table)
            frame = rows.where(where).selectExpr(self._seq(*columns))
            return [json.loads(line) for line in frame.toJSON().collectAsList()]
        except Exception as fault:  # of any class, as in `append`
            raise AgentError(f"the Delta table {table} can not be read: {_first_line(fault)}") from fault

    def remove(self, table: str, where: str) -> None:
        """Remove the rows for which `where` holds. AgentError when that fails; then all rows are removed or none."""
        try:
            self._table(table).delete(where)
        except Exception as fault:  # of any class, as in `append`
            raise AgentError(f"rows of the Delta table {table} can not be removed: {_first_line(fault)}") from fault

    def compact(self, table: str, where: str) -> None:
        """Merge small files in the partitions for which `where` holds. AgentError when that fails."""
        try:
            self._table(table).optimize().where(where).executeCompaction()
        except Exception as fault:  # of any class; the table is unchanged
            raise AgentError(f"the Delta table {table} can not be compacted: {_first_line(fault)}") from fault

    def vacuum(self, table: str) -> None:
        """Delete files that the table has not used for a day. AgentError when that fails."""
        try:
            self._table(table).vacuum()
        except Exception as fault:  # of any class, as in `append`
            raise AgentError(f"the Delta table {table} can not be cleaned up: {_first_line(fault)}") from fault

    def exists(self, table: str) -> bool:
        """Whether the table exists. AgentError when that is not known."""
        try:
            if not is_path(table):
                return bool(self._session.catalog().tableExists(table))
            return bool(self._files(table).exists(self._path(f"{table}/_delta_log")))
        except Exception as fault:  # the storage's, the catalog's, or Py4J's
            raise AgentError(f"{table} can not be looked at: {_first_line(fault)}") from fault

    def rename(self, path: str, to: str) -> None:
        """Rename the directory of a table. AgentError when that fails."""
        try:
            done = bool(self._files(path).rename(self._path(path), self._path(to)))
        except Exception as fault:  # of any class, as in `append`
            raise AgentError(f"{path} can not be renamed: {_first_line(fault)}") from fault
        if not done:
            raise AgentError(f"{path} can not be renamed to {to}")

    def _table(self, table: str) -> Any:
        tables = self._jvm.io.delta.tables.DeltaTable
        return (tables.forPath if is_path(table) else tables.forName)(self._session, table)

    def _save(self, writer: Any, table: str) -> None:
        if is_path(table):
            writer.save(table)
        else:
            writer.saveAsTable(table)

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _files(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._session.sessionState().newHadoopConf())

    def _frame(self, schema: str, rows: Sequence[Row]) -> Any:
        lines = self._jvm.java.util.ArrayList()
        for row in rows:
            lines.add(json.dumps(row))
        texts = self._session.createDataset(lines, self._jvm.org.apache.spark.sql.Encoders.STRING())
        return self._session.read().schema(schema).json(texts).coalesce(1)

    def _seq(self, *texts: str) -> Any:
        """A Scala sequence, for Scala's varargs."""
        listed = self._jvm.java.util.ArrayList()
        for text in texts:
            listed.add(text)
        return self._python_utils.toSeq(listed)

    @property
    def _python_utils(self) -> Any:
        """Spark's conversions for Python. PySpark would give them a short name here."""
        return self._jvm.org.apache.spark.api.python.PythonUtils

    def _with_delta(self) -> Any:
        """A new session with Delta's extension, which `remove` needs; the application's own may not have it."""
        sql = self._jvm.org.apache.spark.sql
        # Not getOrCreate: while the application's context starts or ends, that call makes a second context.
        found = sql.classic.SparkSession.getDefaultSession()
        if found.isEmpty():
            raise AgentError("the application has no session now")
        users_session = found.get()
        extensions = sql.SparkSessionExtensions()
        self._jvm.io.delta.sql.DeltaSparkSessionExtension().apply(extensions)
        option, nothing = self._jvm.scala.Option, self._python_utils.toScalaMap(self._jvm.java.util.HashMap())
        shared = option.apply(users_session.sharedState())
        context = users_session.sparkContext()
        return sql.classic.SparkSession(context, shared, option.empty(), extensions, nothing, nothing)

    @property
    def _session(self) -> Any:
        if self._opened_session is None:
            self._opened_session = self._with_delta()
            conf = self._opened_session.conf()
            for key, value in _CONF.items():
                conf.set(key, value)
            if conf.get(_CATALOG, _NO_CATALOG) == _NO_CATALOG:  # a catalog of the application's choice stays
                conf.set(_CATALOG, "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        # The property belongs to the JVM's thread that serves this Python thread, so it is set on each use.
        self._opened_session.sparkContext().setLocalProperty("spark.scheduler.pool", _POOL)
        return self._opened_session


def _first_line(fault: BaseException) -> str:
    """The first line of an error; for an error of the JVM also the first line of the error that has caused it."""
    thrown: Any = getattr(fault, "java_exception", None)
    if thrown is None:
        return f"{type(fault).__name__}: {_line(fault)}"
    root = thrown
    while (cause := root.getCause()) is not None:
        root = cause
    cause_text = "" if root is thrown else f"; caused by {_line(root)}"
    return f"{type(fault).__name__}: {_line(thrown)}{cause_text}"


def _line(thrown: Any) -> str:
    text = str(thrown).strip()
    return text.splitlines()[0] if text else ""
