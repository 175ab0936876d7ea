"""Tells a job's own `foreachBatch` whether its query is being drained."""

from __future__ import annotations

from mooring.errors import MooringError


def is_draining(batch_id: int) -> bool:
    """Whether a batch flushes the state of a drained query, such as windows that are not full yet.

    Call it in `foreachBatch`, on the driver: it answers for the query whose batch is processed there. It is False for a
    batch of a drain that only reads the rest of the input, and False without the plugin. MooringError where this
    process has no Spark context, such as a client of Spark Connect.
    """
    from py4j.java_gateway import JavaPackage
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    jvm = None if context is None else context._jvm
    if jvm is None:
        raise MooringError("there is no Spark context in this process: is_draining is for foreachBatch on the driver")
    drains = jvm.io.mooring.Drains
    return not isinstance(drains, JavaPackage) and bool(drains.isFlush(batch_id))
