"""The built query at a steady load: a batch every so many seconds, until it is told to end. Knows nothing of Mooring.

working_job.py CHECKPOINT ROWS OUTPUTS SECONDS WAIT STOP RESULT    ROWS for each batch, of each of which OUTPUTS come,
                                                                   and take WAIT milliseconds; ends when the file STOP
                                                                   is there; RESULT gets JSON with the progress of
                                                                   every batch
"""

import sys
import time
from pathlib import Path

from batches_told import tell_and_stop
from built_query import delayed, expanded, without_duplicates
from pyspark.sql import SparkSession


def main(checkpoint: str, rows: str, outputs: str, seconds: str, wait_ms: str, stop: str, result: str) -> None:
    spark = SparkSession.builder.appName("working").getOrCreate()
    rows_out = delayed(expanded(without_duplicates(spark, rows), int(outputs)), int(wait_ms))
    writer = rows_out.writeStream.format("noop").queryName("working")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime=f"{seconds} seconds").start()
    while query.isActive and not Path(stop).exists():
        time.sleep(0.5)
    tell_and_stop(spark, result, query)


if __name__ == "__main__":
    main(*sys.argv[1:])
