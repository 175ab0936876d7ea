"""How often each key came in each ten seconds, from a Kafka topic; goes on until it is drained.

kafka_until_drained.py SERVERS/TOPIC CHECKPOINTS OUTPUTS goes-on
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from streams import INPUT, write

spark = SparkSession.builder.appName("kafka until drained").getOrCreate()
servers, _, topic = INPUT.partition("/")
records = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", servers)
    .option("subscribe", topic)
    .option("startingOffsets", "earliest")
    .load()
)
keys = (
    records.select(f.from_json(f.col("value").cast("string"), "key LONG, ms LONG").alias("it"))
    .select("it.key", f.timestamp_millis("it.ms").alias("time"))
    .withWatermark("time", "1 minute")
    .groupBy(f.window("time", "10 seconds"), "key")
    .count()
    .select("window.start", "key", "count")
)
write(keys, "counts").awaitTermination()
