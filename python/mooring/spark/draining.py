"""What a job's own `foreachBatch` may ask of the drain of its query."""

from __future__ import annotations

from mooring.errors import MooringError


def is_draining(batch_id: int) -> bool:
    """Whether a batch lets out what a drained query held back, such as windows that are not full yet.

    For `foreachBatch`, on the driver: it is about the query whose batch is processed there. Batches that only catch up
    with what had come in are as ever. False without the plugin. MooringError where no Spark context is in this process,
    as in a client of Spark Connect.
    """
    from py4j.java_gateway import JavaPackage
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    jvm = None if context is None else context._jvm
    if jvm is None:
        raise MooringError("there is no Spark context in this process: is_draining is for foreachBatch on the driver")
    drains = jvm.io.mooring.Drains
    return not isinstance(drains, JavaPackage) and bool(drains.isFlush(batch_id))
