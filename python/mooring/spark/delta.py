"""Delta tables, written through a session of the agent's own in the driver's application.

Rows go as JSON and are read by the JVM: no executor needs Python for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring.checkpoint.catalogue import is_path
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
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",  # a clean-up is ten thousand tasks else
}


_TABLE: Final = {  # a log of weeks takes long to list
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
}


class DeltaTables:
    """Tables, each named by its path or by its name in a catalog; one job at a time, in a pool of its own."""

    def __init__(self, jvm: Any, say: Callable[[str], None] = lambda text: None) -> None:
        """`jvm` is Py4J's view of the driver; `say` hears of what is done at more cost than need be."""
        self._jvm, self._say = jvm, say
        self._kernel_failed: dict[str, int] = {}  # table -> how often in a row
        self._opened: Any = None
        self._kernel: KernelAppends | None = None

    def append(self, table: str, schema: str, partition: str, rows: Sequence[Row], writer: str, number: int) -> None:
        """Add rows in one transaction; the table is made if need be, partitioned by the column `partition`.

        What `writer` has written under this number is not written again; numbers rise. Rows hold what JSON can.
        AgentError when it can not be done.
        """
        if is_path(table) and self.exists(table) and self._kernel_appends(table, partition, rows, writer, number):
            return
        try:
            appending = self._frame(schema, rows).write().format("delta").mode("append")
            appending = appending.partitionBy(self._seq(partition)).option("txnAppId", writer)
            for key, value in _TABLE.items():
                appending = appending.option(key, value)
            self._save(appending.option("txnVersion", str(number)), table)
        except Exception as fault:  # Spark's, Delta's, Py4J's, the storage's: all mean that nothing was appended
            raise AgentError(f"the Delta table {table} can not be written: {_first_line(fault)}") from fault

    def _kernel_appends(self, table: str, partition: str, rows: Sequence[Row], writer: str, number: int) -> bool:
        """Whether Delta's Kernel has them; else Spark's writer is to try, for which what was written counts once."""
        if self._kernel_failed.get(table, 0) >= _KERNEL_TRIES:
            return False
        try:
            if self._kernel is None:
                if self._has_log_stores:  # which Kernel does not know: two writers might not see each other
                    raise AgentError("spark.delta.logStore is set")
                self._kernel = KernelAppends(self._jvm, self._session.sessionState().newHadoopConf())
            self._kernel.append(table, partition, rows, writer, number)
        except Exception as fault:  # not among the jars, a table that it can not write, the storage's: Spark's tells
            self._kernel = None
            self._kernel_failed[table] = self._kernel_failed.get(table, 0) + 1
            if self._kernel_failed[table] == _KERNEL_TRIES:
                self._say(f"the catalogue {table} is written by Spark from now on, at more cost ({_first_line(fault)})")
            return False
        self._kernel_failed.pop(table, None)
        return True

    @property
    def _has_log_stores(self) -> bool:
        return len(self._session.sparkContext().getConf().getAllWithPrefix("spark.delta.logStore.")) > 0

    def select(self, table: str, columns: Sequence[str], where: str) -> list[Row] | None:
        """Some columns, or aggregates, of the rows for which `where` holds; None where there is no table yet.

        What is null is left out. AgentError when it can not be read.
        """
        try:
            if not self.exists(table):
                return None
            reader = self._session.read().format("delta")
            rows = reader.load(table) if is_path(table) else reader.table(table)
            frame = rows.where(where).selectExpr(self._seq(*columns))
            return [json.loads(line) for line in frame.toJSON().collectAsList()]
        except Exception as fault:  # as above: it is not known
            raise AgentError(f"the Delta table {table} can not be read: {_first_line(fault)}") from fault

    def remove(self, table: str, where: str) -> None:
        """Remove the rows for which `where` holds. AgentError when it can not be done."""
        try:
            self._table(table).delete(where)
        except Exception as fault:  # as above: nothing was removed
            raise AgentError(f"rows of the Delta table {table} can not be removed: {_first_line(fault)}") from fault

    def compact(self, table: str, where: str) -> None:
        """Make few files of many, in the partitions for which `where` holds. AgentError when it can not be done."""
        try:
            self._table(table).optimize().where(where).executeCompaction()
        except Exception as fault:  # as above: it is as it was
            raise AgentError(f"the Delta table {table} can not be compacted: {_first_line(fault)}") from fault

    def vacuum(self, table: str) -> None:
        """Delete files that the table has not named for a day. AgentError when it can not be done."""
        try:
            self._table(table).vacuum()
        except Exception as fault:  # as above
            raise AgentError(f"the Delta table {table} can not be cleaned up: {_first_line(fault)}") from fault

    def exists(self, table: str) -> bool:
        """Whether there is such a table. AgentError when that can not be told."""
        try:
            if not is_path(table):
                return bool(self._session.catalog().tableExists(table))
            return bool(self._files(table).exists(self._path(f"{table}/_delta_log")))
        except Exception as fault:  # the storage's, the catalog's, or Py4J's
            raise AgentError(f"{table} can not be looked at: {_first_line(fault)}") from fault

    def rename(self, path: str, to: str) -> None:
        """Take the table away from its path, with all that is in it. AgentError when it can not be done."""
        try:
            done = bool(self._files(path).rename(self._path(path), self._path(to)))
        except Exception as fault:  # as above
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
        """As Scala's varargs want them."""
        wanted = self._jvm.java.util.ArrayList()
        for text in texts:
            wanted.add(text)
        return self._jvm.PythonUtils.toSeq(wanted)

    def _with_delta(self) -> Any:
        """A new session that knows Delta's own plans, which removing rows needs; the application's may not."""
        sql = self._jvm.org.apache.spark.sql
        # Not getOrCreate: while the application's context starts or ends, that call makes a second context.
        found = sql.classic.SparkSession.getDefaultSession()
        if found.isEmpty():
            raise AgentError("the application has no session now")
        users = found.get()
        extensions = sql.SparkSessionExtensions()
        self._jvm.io.delta.sql.DeltaSparkSessionExtension().apply(extensions)
        option, nothing = self._jvm.scala.Option, self._jvm.PythonUtils.toScalaMap(self._jvm.java.util.HashMap())
        shared = option.apply(users.sharedState())
        context = users.sparkContext()
        return sql.classic.SparkSession(context, shared, option.empty(), extensions, nothing, nothing)

    @property
    def _session(self) -> Any:
        if self._opened is None:
            self._opened = self._with_delta()
            conf = self._opened.conf()
            for key, value in _CONF.items():
                conf.set(key, value)
            if conf.get(_CATALOG, _NO_CATALOG) == _NO_CATALOG:  # else the application has chosen who knows its tables
                conf.set(_CATALOG, "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        self._opened.sparkContext().setLocalProperty(
            "spark.scheduler.pool", _POOL
        )  # of the thread that serves this one
        return self._opened


def _first_line(fault: BaseException) -> str:
    text = str(getattr(fault, "java_exception", fault)).strip()
    return f"{type(fault).__name__}: {text.splitlines()[0] if text else ''}"
