"""The end of a job whose figures come from its batches. Knows nothing of Mooring."""

import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery


def tell_and_stop(spark: SparkSession, result: str, *queries: StreamingQuery) -> None:
    """Write the application's id and the progress of every batch to the file `result`, and stop the session.

    Raises a query's error when it has failed; then nothing is written.
    """
    progress = []
    for query in queries:
        if query.exception():
            raise query.exception()
        progress += [json.loads(one.json) for one in query.recentProgress if "addBatch" in one.durationMs]
        query.stop()
    Path(result).write_text(json.dumps({"application": spark.sparkContext.applicationId, "progress": progress}))
    spark.stop()
