"""One application with one batch of the built query. Knows nothing of Mooring.

restart_job.py CHECKPOINT ROWS RESULT    ROWS is the size of the batch; RESULT gets JSON with what the driver saw
"""

import json
import sys
import time
from pathlib import Path

from built_query import without_duplicates
from pyspark.sql import SparkSession


def main(checkpoint: str, rows: str, result: str) -> None:
    spark = SparkSession.builder.appName("restart").getOrCreate()
    writer = without_duplicates(spark, rows).writeStream.format("noop").queryName("restart")
    started = time.time()
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(p.json) for p in query.recentProgress if "addBatch" in p.durationMs]
    answer = {"application": spark.sparkContext.applicationId, "query-start": started, "progress": progress}
    Path(result).write_text(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
