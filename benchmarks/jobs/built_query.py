"""The query whose state is built once: removes duplicates among rows of 2 KB that do not compress.

What it does with a row after that, which no state is kept for, is work as queries have it, and more of it is more load.

Every application that is to find that state runs this query.
"""

from pyspark.sql import DataFrame, SparkSession

PAYLOAD = """aes_encrypt(repeat('m', 2000), '0123456789abcdef', 'CBC', 'PKCS', unhex(md5(cast(value as string))))"""


def without_duplicates(spark: SparkSession, rows_a_batch: str) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows_a_batch)
    source = source.option("numPartitions", "2").option("startTimestamp", "1767607200000")
    return source.load().selectExpr("value", f"{PAYLOAD} as payload").dropDuplicates()


def expanded(rows: DataFrame, outputs_a_row: int) -> DataFrame:
    """Each row becomes so many, each with a SHA-512 of its 2 KB, of a few microseconds; with one it stays as it is."""
    if outputs_a_row == 1:
        return rows
    many = rows.selectExpr("value", "payload", f"explode(sequence(1, {outputs_a_row})) as number")
    return many.selectExpr("value", "number", "sha2(concat(payload, encode(string(number), 'utf-8')), 512) as hash")


def delayed(rows: DataFrame, wait_ms: int) -> DataFrame:
    """Each row is waited for so long, which keeps the task and no processor."""
    if wait_ms == 0:
        return rows
    return rows.selectExpr("*", f"java_method('java.lang.Thread', 'sleep', {wait_ms}L) as waited")
