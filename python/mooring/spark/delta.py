"""Delta tables, written through a session of the agent's own in the driver's application.

Rows go as JSON and are read by the JVM: no executor needs Python for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mooring.errors import AgentError

_POOL: Final = "mooring-catalog"
_CONF: Final = {
    "spark.sql.shuffle.partitions": "1",
    # Appending needs neither Delta's SQL nor its catalog, which are the application's to switch on.
    "spark.databricks.delta.requiredSparkConfsCheck.enabled": "false",
}


class DeltaTables:
    """Appends to tables by their paths; one job at a time, in a pool of its own."""

    def __init__(self, jvm: Any) -> None:
        """`jvm` is Py4J's view of the driver."""
        self._jvm = jvm
        self._opened: Any = None

    def append(self, path: str, schema: str, rows: Sequence[Mapping[str, Any]], writer: str, number: int) -> None:
        """Add rows in one transaction; the table is made if need be.

        What `writer` has written under this number is not written again; numbers rise. Rows hold what JSON can.
        AgentError when it can not be done.
        """
        try:
            lines = self._jvm.java.util.ArrayList()
            for row in rows:
                lines.add(json.dumps(row))
            session = self._session
            texts = session.createDataset(lines, self._jvm.org.apache.spark.sql.Encoders.STRING())
            frame = session.read().schema(schema).json(texts).coalesce(1)
            appending = frame.write().format("delta").mode("append")
            appending.option("txnAppId", writer).option("txnVersion", str(number)).save(path)
        except Exception as fault:  # Spark's, Delta's, Py4J's, the storage's: all mean that nothing was appended
            raise AgentError(f"the Delta table {path} can not be written: {_first_line(fault)}") from fault

    def greatest(self, path: str, column: str) -> int | None:
        """The greatest number in a column; None for an empty table, or where there is none yet.

        AgentError when it can not be read.
        """
        try:
            log = self._jvm.org.apache.hadoop.fs.Path(f"{path}/_delta_log")
            if not log.getFileSystem(self._session.sessionState().newHadoopConf()).exists(log):
                return None
            found = self._session.read().format("delta").load(path).agg(self._jvm.functions.max(column), self._none())
            value = found.collectAsList().get(0).get(0)
            return None if value is None else int(value)
        except Exception as fault:  # as above: it is not known
            raise AgentError(f"the Delta table {path} can not be read: {_first_line(fault)}") from fault

    def _none(self) -> Any:
        """No further column, as Scala's varargs want it."""
        return self._jvm.PythonUtils.toSeq(self._jvm.java.util.ArrayList())

    @property
    def _session(self) -> Any:
        if self._opened is None:
            self._opened = self._jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate().newSession()
            for key, value in _CONF.items():
                self._opened.conf().set(key, value)
        self._opened.sparkContext().setLocalProperty(
            "spark.scheduler.pool", _POOL
        )  # of the thread that serves this one
        return self._opened


def _first_line(fault: BaseException) -> str:
    text = str(getattr(fault, "java_exception", fault)).strip()
    return f"{type(fault).__name__}: {text.splitlines()[0] if text else ''}"
