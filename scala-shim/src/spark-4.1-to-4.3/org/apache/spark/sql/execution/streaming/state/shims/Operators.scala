package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

import org.apache.spark.sql.catalyst.plans.logical
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.streaming.Trigger

/** What queries and their operators are called in Spark 4.1 to 4.3. */
object Operators {

  /** `transformWithState` of Python. */
  type TransformWithStateInPython = logical.TransformWithStateInPySpark

  /** The session with the query's own copy of the settings. */
  def sessionOf(query: StreamExecution): SparkSession = query.sparkSessionForStream // protected[sql]

  def isRealTime(trigger: Trigger): Boolean = trigger.isInstanceOf[RealTimeTrigger]

  /** The names of the stores of an operator. */
  def storesOf(operator: StateStoreWriter): Seq[String] = operator.stateStoreNames

  /** Whether a new query may have state of format 2: each query may. */
  def mayHaveFormat2(@unused query: logical.LogicalPlan): Boolean = true
}
