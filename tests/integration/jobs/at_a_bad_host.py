"""Each bid once, going on until it is told to end; a host is bad while files beside the input say so.

FAILS-AT names a host where its tasks fail, HOLDS-AT one where each waits until the file is gone, SLOW-AT one where each
takes three seconds more.
"""

import os
import time
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import INPUT, bids, write_until_told

spark = SparkSession.builder.appName("at a bad host").getOrCreate()

slowed: set[int] = set()  # attempts, once for each


@f.udf("long")
def passed_on(price: int) -> int:
    here = os.environ["SPARK_LOCAL_IP"]

    def is_bad(marker: str) -> bool:
        file = Path(INPUT) / marker
        return file.exists() and file.read_text() == here

    attempt = TaskContext.get().taskAttemptId()
    if attempt not in slowed and is_bad("SLOW-AT"):
        slowed.add(attempt)
        time.sleep(3)
    while is_bad("HOLDS-AT"):
        time.sleep(0.1)
    if is_bad("FAILS-AT"):
        raise RuntimeError(f"{here} is bad")
    return price


distinct = bids(spark).dropDuplicates(["bid", "time"])
priced = distinct.select("bid", "time", "auction", "bidder", passed_on("price").alias("price"))
write_until_told(priced, "distinct")
