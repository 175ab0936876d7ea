package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.state.{StateStoreCustomMetric, StateStoreCustomSumMetric}

/**
 * How far the drain of a query is, as a custom metric of its operators in the progress of each batch. Called by the stream's thread.
 * Depends on `StatefulOperator.metrics`.
 */
object DrainMetric {
  private val Name = "mooring.drain-state"

  private[shims] val supported: Seq[StateStoreCustomMetric] = Seq(StateStoreCustomSumMetric(Name,
    "Mooring: 0 in an ordinary batch, 1 in one that catches up when the intake has stopped, 2 in one that lets out what was held back"))

  /** Sets the metric for the next batch. No task adds to it. */
  def set(operators: Seq[SparkPlan], state: Int): Unit =
    operators.collect { case stateful: StatefulOperator => stateful }.flatMap(_.metrics.get(Name)).foreach(_.set(state))
}
