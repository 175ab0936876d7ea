package io.mooring.driver

import io.mooring.common.Build

/** Delta for this line of Spark. */
private object DeltaOfLine {

  /** What makes Delta one of the application's jars, for the log. */
  val Advice: String = s"add --packages io.delta:delta-spark_${Build.line}_2.13:4.4.0"
}
