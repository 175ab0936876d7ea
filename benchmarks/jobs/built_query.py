"""The query whose state is built once: removes duplicates among rows of 2 KB that do not compress.

Every application that is to find that state runs this query.
"""

from pyspark.sql import DataFrame, SparkSession

PAYLOAD = """aes_encrypt(repeat('m', 2000), '0123456789abcdef', 'CBC', 'PKCS', unhex(md5(cast(value as string))))"""


def without_duplicates(spark: SparkSession, rows_a_batch: str) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_a_batch)
    source = source.option("numPartitions", "2").option("startTimestamp", "1767607200000")
    return source.load().selectExpr("value", f"{PAYLOAD} as payload").dropDuplicates()
