"""Counts with all executors, and writes where the tasks ran. No state and no Mooring.

`where_tasks_ran.py OUT`: a line `EXECUTOR NODE` for each executor, and the sum 4950, as one file. With `OUT SECONDS`
the application lives for so long after that.
"""

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

OUT = Path(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0

spark = SparkSession.builder.appName("where tasks ran").getOrCreate()


def place(_):
    yield os.environ["SPARK_EXECUTOR_ID"], os.environ.get("NODE_NAME", "")


total = spark.range(100).selectExpr("sum(id)").first()[0]
places = sorted(set(spark.sparkContext.parallelize(range(40), 40).mapPartitions(place).collect()))
OUT.with_suffix(".part").write_text("".join(f"{executor} {node}\n" for executor, node in places) + f"{total}\n")
OUT.with_suffix(".part").rename(OUT)
time.sleep(SECONDS)
spark.stop()
