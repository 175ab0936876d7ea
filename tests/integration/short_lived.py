"""Settings for applications that live for half a minute or two, as those of tests do."""

# The optimising compiler and several collector threads cost such a JVM more than they bring.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SHORT_LIVED = {"spark.driver.extraJavaOptions": _JAVA, "spark.executor.extraJavaOptions": _JAVA}
