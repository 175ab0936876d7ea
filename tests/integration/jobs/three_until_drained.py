"""Three queries, each reads the Delta table that the one before it writes; they go on until they are drained."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery
from streams import CHECKPOINTS, OUTPUTS, bids

spark = SparkSession.builder.appName("three until drained").getOrCreate()


def write(rows: DataFrame, name: str) -> StreamingQuery:
    writer = rows.writeStream.queryName(name).format("delta")
    return writer.option("checkpointLocation", f"{CHECKPOINTS}/{name}").start(f"{OUTPUTS}/{name}")


def read(name: str) -> DataFrame:
    return spark.readStream.format("delta").load(f"{OUTPUTS}/{name}")


def sums(rows: DataFrame, length: str) -> DataFrame:
    windows = rows.withWatermark("start", "1 minute").groupBy(f.window("start", length))
    return windows.agg(f.sum("bids").alias("bids"), f.count("*").alias("groups")).select(
        "window.start", "bids", "groups"
    )


SCHEMAS = {
    "counts": "start TIMESTAMP, auction LONG, bids LONG, highest LONG",
    "minutes": "start TIMESTAMP, bids LONG, groups LONG",
    "totals": "start TIMESTAMP, bids LONG, groups LONG",
}
for table, schema in SCHEMAS.items():  # before any query: Delta does not let two make a table at once
    spark.createDataFrame([], schema).write.format("delta").mode("ignore").save(f"{OUTPUTS}/{table}")

groups = bids(spark).groupBy(f.window("time", "20 seconds"), "auction")
counts = groups.agg(f.count("*").alias("bids"), f.max("price").alias("highest"))
queries = [
    write(counts.select("window.start", "auction", "bids", "highest"), "counts"),
    write(sums(read("counts"), "1 minute"), "minutes"),
    write(sums(read("minutes"), "3 minutes"), "totals"),
]
for query in queries:
    query.awaitTermination()
