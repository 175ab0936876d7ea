"""One application with one batch: removes duplicates among rows of 2 KB that do not compress. Knows nothing of Mooring.

restart_job.py CHECKPOINT ROWS RESULT    ROWS is the size of the batch; RESULT gets JSON with what the driver saw
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

PAYLOAD = """aes_encrypt(repeat('m', 2000), '0123456789abcdef', 'CBC', 'PKCS', unhex(md5(cast(value as string))))"""


def main(checkpoint: str, rows: str, result: str) -> None:
    spark = SparkSession.builder.appName("restart").getOrCreate()
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", "2")
    rows_of_2_kb = source.option("startTimestamp", "1767607200000").load().selectExpr("value", f"{PAYLOAD} as payload")
    writer = rows_of_2_kb.dropDuplicates().writeStream.format("noop").queryName("restart")
    started = time.time()
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(p.json) for p in query.recentProgress if "addBatch" in p.durationMs]
    answer = {"application": spark.sparkContext.applicationId, "query-start": started, "progress": progress}
    Path(result).write_text(json.dumps(answer))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
