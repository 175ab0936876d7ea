"""One application with one batch of the built query. Knows nothing of Mooring.

restart_job.py CHECKPOINT ROWS WARM RESULT    ROWS a batch; RESULT gets JSON with what the driver saw

restart_job.py CHECKPOINT ROWS WARM RESULT   ROWS of a batch; RESULT gets JSON with what the driver saw
JVMs have loaded and compiled what it needs.
"""

import json
import sys
import time
from pathlib import Path

from built_query import without_duplicates
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

WARM_BATCHES = 3


def main(checkpoint: str, rows: str, warm: str, result: str) -> None:
    spark = SparkSession.builder.appName("restart").getOrCreate()
    for _ in range(WARM_BATCHES if warm == "warm" else 0):
        run(spark, f"{checkpoint}-warm", rows)
    started = time.time()
    query = run(spark, checkpoint, rows)
    progress = [json.loads(p.json) for p in query.recentProgress if "addBatch" in p.durationMs]
    answer = {"application": spark.sparkContext.applicationId, "query-start": started, "progress": progress}
    Path(result).write_text(json.dumps(answer))
    spark.stop()


def run(spark: SparkSession, checkpoint: str, rows: str) -> StreamingQuery:
    writer = without_duplicates(spark, rows).writeStream.format("noop").queryName("restart")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


if __name__ == "__main__":
    main(*sys.argv[1:])
