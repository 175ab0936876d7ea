package org.apache.spark.sql.execution.streaming.state.shims

import scala.util.control.NonFatal

import org.apache.spark.shims.{Capability, SparkInternals}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExecBase

/** On which providers `transformWithState` runs in Spark 4.2 and 4.3: those whose names are in a private set. */
object ProvidersOfTransformWithState {

  /**
   * Lets `transformWithState` run on Mooring's provider, which is stock RocksDB underneath. The operator checks the class name
   * when it executes, so this is called on the operator just before.
   */
  def allow(plan: SparkPlan, className: String): Unit = plan.foreach {
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
