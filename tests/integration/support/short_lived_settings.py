"""Settings for applications that run for at most a minute or two, as in tests."""

from mooring.testing.spark_home import SHORT_LIVED_SPARK

SHORT_LIVED = {
    "spark.driver.extraJavaOptions": SHORT_LIVED_SPARK,
    "spark.executor.extraJavaOptions": SHORT_LIVED_SPARK,
}
