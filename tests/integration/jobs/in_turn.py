"""Queries one after the other in one application, as many as `spark.test.queries` names; each goes through the input.

`first` and `second` count the bids of each channel, `total` counts all bids: an aggregation without a key. Each batch
replaces the query's result, OUTPUTS/NAME.json.
"""

import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from streams import CHECKPOINTS, OUTPUTS, bids

spark = SparkSession.builder.appName("in turn").getOrCreate()


def counts(name: str) -> DataFrame:
    keys = [] if name == "total" else ["channel"]
    return bids(spark).groupBy(*keys).count()


def run(name: str) -> None:
    def replace_result(batch: DataFrame, number: int) -> None:
        result = Path(OUTPUTS, f"{name}.json")
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps([list(row) for row in batch.collect()]))

    writer = counts(name).writeStream.queryName(name).outputMode("complete").foreachBatch(replace_result)
    writer.option("checkpointLocation", f"{CHECKPOINTS}/{name}").trigger(availableNow=True).start().awaitTermination()


for each in spark.conf.get("spark.test.queries").split(","):
    run(each)
spark.stop()
