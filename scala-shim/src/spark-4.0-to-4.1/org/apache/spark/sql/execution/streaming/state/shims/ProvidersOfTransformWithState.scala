package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

import org.apache.spark.sql.execution.SparkPlan

/** On which providers `transformWithState` runs in Spark 4.0 and 4.1: on any. */
object ProvidersOfTransformWithState {

  /** Lets `transformWithState` run on this provider: nothing is needed. */
  def allow(@unused plan: SparkPlan, @unused className: String): Unit = ()
}
