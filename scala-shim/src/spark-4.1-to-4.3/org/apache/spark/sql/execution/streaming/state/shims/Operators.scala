package org.apache.spark.sql.execution.streaming.state.shims

import scala.util.control.NonFatal

import org.apache.spark.shims.{Capability, SparkInternals}
import org.apache.spark.sql.catalyst.plans.logical
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase
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

  /**
   * Lets `transformWithState` run on Mooring's provider, which is stock RocksDB underneath. The operator checks the class name
   * against a private set when it executes, so this is called on the operator just before.
   */
  def allowProvider(plan: SparkPlan, className: String): Unit = plan.foreach {
    case operator: TransformWithStateExecBase if Capability.TransformWithState.isOn =>
      try {
        val field = SparkInternals.transformWithStateProviders
        field.set(operator, field.get(operator).asInstanceOf[Set[String]] + className)
      } catch {
        case NonFatal(e) =>
          throw new IllegalStateException("this Spark's transformWithState accepts no other state store provider", e)
      }
    case _ =>
  }
}
