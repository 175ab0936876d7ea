"""Appends to Delta tables with Delta's Kernel: in the driver alone, without a Spark job.

Spark's own writer takes 0.5 to 0.7 s of CPU time for each append, and slots of executors that batches need. Both
writers write the same: one transaction, with the same transaction identifier.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

_ENGINE_INFO: Final = "mooring"
_ALREADY_WRITTEN: Final = "io.delta.kernel.exceptions.ConcurrentTransactionException"
"""The class of Kernel's error for a transaction identifier that the table has already."""

Row = Mapping[str, Any]


class KernelAppends:
    """Appends to existing tables, given by their paths. Errors of Kernel are not translated."""

    def __init__(self, jvm: Any, conf: Any) -> None:
        """`jvm` is Py4J's view of the driver, `conf` Hadoop's configuration there."""
        self._java, self._kernel = jvm.java.util, jvm.io.delta.kernel
        self._utils = self._kernel.internal.util
        self._engine = self._kernel.defaults.engine.DefaultEngine.create(conf)

    def append(self, path: str, partition_column: str, rows: Sequence[Row], writer: str, number: int) -> None:
        """Add rows, once for each writer and number. The partition column has whole numbers."""
        begin = self._kernel.Table.forPath(self._engine, path).createTransactionBuilder(
            self._engine, _ENGINE_INFO, self._kernel.Operation.WRITE
        )
        try:
            transaction = begin.withTransactionId(self._engine, writer, number).build(self._engine)
        except Exception as fault:
            if _class_of(fault) == _ALREADY_WRITTEN:
                return
            raise
        actions = self._java.ArrayList()
        for value in sorted({row[partition_column] for row in rows}):
            of_value = [row for row in rows if row[partition_column] == value]
            self._write(transaction, {partition_column: value}, of_value, actions)
        done = transaction.commit(
            self._engine,
            self._kernel.utils.CloseableIterable.inMemoryIterable(
                self._utils.Utils.toCloseableIterator(actions.iterator())
            ),
        )
        for hook in done.getPostCommitHooks():
            with suppress(Exception):  # a checkpoint of the log, or a checksum: later commits write these too
                hook.threadSafeInvoke(self._engine)

    def _write(self, transaction: Any, partition_values: Mapping[str, int], rows: Sequence[Row], actions: Any) -> None:
        """Write the files of one partition, and add the log's entries for them to `actions`."""
        engine, transactions = self._engine, self._kernel.Transaction
        state = transaction.getTransactionState(engine)
        values = self._java.HashMap()
        for column, value in partition_values.items():
            values.put(column, self._kernel.expressions.Literal.ofLong(value))
        batch = engine.getJsonHandler().parseJson(
            self._texts(rows), transaction.getSchema(engine), self._java.Optional.empty()
        )
        all_rows = self._kernel.data.FilteredColumnarBatch(batch, self._java.Optional.empty())
        logical = self._utils.Utils.singletonCloseableIterator(all_rows)
        context = transactions.getWriteContext(engine, state, values)
        files = engine.getParquetHandler().writeParquetFiles(
            context.getTargetDirectory(),
            transactions.transformLogicalData(engine, state, logical, values),
            context.getStatisticsColumns(),
        )
        appends = transactions.generateAppendActions(engine, state, files, context)
        while appends.hasNext():
            actions.add(appends.next())

    def _texts(self, rows: Sequence[Row]) -> Any:
        lines = self._java.ArrayList()
        for row in rows:
            lines.add(json.dumps(row))
        return self._utils.VectorUtils.buildColumnVector(lines, self._kernel.types.StringType.STRING)


def _class_of(fault: BaseException) -> str:
    thrown = getattr(fault, "java_exception", None)
    return "" if thrown is None else str(thrown.getClass().getName())
