package io.mooring.driver

import io.mooring.common.Build

/** Delta for this line of Spark. */
private object DeltaOfLine {

  /** Why Delta can not be one of the application's jars, for the log. */
  val Advice: String = s"there is no Delta for Spark ${Build.line} yet"
}
