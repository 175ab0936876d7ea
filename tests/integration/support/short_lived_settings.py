"""Settings for applications that run for at most a minute or two, as in tests."""

from mooring.testing.spark_home import SHORT_LIVED_JVM

SHORT_LIVED = {
    "spark.driver.extraJavaOptions": SHORT_LIVED_JVM,
    "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,
}
