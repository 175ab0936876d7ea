package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.catalyst.plans.logical
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.{StateStoreWriter, StreamExecution}
import org.apache.spark.sql.streaming.Trigger

/** What queries and their operators are called in Spark 4.0. */
object Operators {

  /** `transformWithState` of Python. */
  type TransformWithStateInPython = logical.TransformWithStateInPandas

  /** The session with the query's own copy of the settings. */
  def sessionOf(query: StreamExecution): SparkSession = SparkInternals.querySession.get(query).asInstanceOf[SparkSession]

  /** Spark 4.0 has no real-time mode. */
  def isRealTime(trigger: Trigger): Boolean = false

  /** The names of the stores of an operator. */
  def storesOf(operator: StateStoreWriter): Seq[String] = CheckpointLogs.storesOf(operator.operatorStateMetadata()).map(_.storeName)
}
