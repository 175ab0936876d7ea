package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.catalyst.plans.logical
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.{StateStoreWriter, StreamExecution, StreamingSymmetricHashJoinExec}
import org.apache.spark.sql.execution.streaming.StreamingSymmetricHashJoinHelper.{LeftSide, RightSide}
import org.apache.spark.sql.execution.streaming.state.{StateStoreId, SymmetricHashJoinStateManager}
import org.apache.spark.sql.streaming.Trigger

/** What queries and their operators are called in Spark 4.0. */
object Operators {

  /** `transformWithState` of Python. */
  type TransformWithStateInPython = logical.TransformWithStateInPandas

  /** The session with the query's own copy of the settings. */
  def sessionOf(query: StreamExecution): SparkSession = SparkInternals.querySession.member.get(query).asInstanceOf[SparkSession]

  /** Spark 4.0 has no real-time mode. */
  def isRealTime(trigger: Trigger): Boolean = false

  /** The names of the stores of an operator. Only a join has several. */
  def storesOf(operator: StateStoreWriter): Seq[String] = operator match {
    case _: StreamingSymmetricHashJoinExec => SymmetricHashJoinStateManager.allStateStoreNames(LeftSide, RightSide)
    case _ => Seq(StateStoreId.DEFAULT_STORE_NAME)
  }

  /**
   * Whether a new query may have state of format 2. A limit, and an aggregation without a key, keep state in one partition, and Spark 4.0
   * then fails at the commit.
   */
  def mayHaveFormat2(query: logical.LogicalPlan): Boolean = !query.exists {
    case limit: logical.GlobalLimit => limit.isStreaming
    case aggregate: logical.Aggregate => aggregate.isStreaming && aggregate.groupingExpressions.isEmpty
    case _ => false
  }
}
