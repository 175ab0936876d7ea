"""The windowed aggregation, with a function in a jar of the user's own that returns what it gets."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType
from streams import counts_of_bids, write

spark = SparkSession.builder.appName("with a class of the user's").getOrCreate()
spark.udf.registerJavaFunction("same", "Same", LongType())

counts = counts_of_bids(spark)
write(counts.withColumn("auction", f.expr("same(auction)")), "counts").awaitTermination()
