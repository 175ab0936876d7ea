"""Settings for applications that live for half a minute or two, as those of tests do."""

from mooring.testing.spark_home import SHORT_LIVED_JVM

SHORT_LIVED = {
    "spark.driver.extraJavaOptions": SHORT_LIVED_JVM,
    "spark.executor.extraJavaOptions": SHORT_LIVED_JVM,
}
