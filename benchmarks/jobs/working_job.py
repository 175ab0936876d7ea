"""The built query at a steady load: a batch a second, until it is told to end. Knows nothing of Mooring.

working_job.py CHECKPOINT ROWS STOP RESULT    ROWS for each batch; ends when the file STOP is there; RESULT gets JSON
                                              with the progress of every batch
"""

import json
import sys
import time
from pathlib import Path

from built_query import without_duplicates
from pyspark.sql import SparkSession


def main(checkpoint: str, rows: str, stop: str, result: str) -> None:
    spark = SparkSession.builder.appName("working").getOrCreate()
    writer = without_duplicates(spark, rows).writeStream.format("noop").queryName("working")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()
    while query.isActive and not Path(stop).exists():
        time.sleep(0.5)
    if query.exception():
        raise query.exception()
    progress = [json.loads(p.json) for p in query.recentProgress if "addBatch" in p.durationMs]
    query.stop()
    Path(result).write_text(json.dumps({"application": spark.sparkContext.applicationId, "progress": progress}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
