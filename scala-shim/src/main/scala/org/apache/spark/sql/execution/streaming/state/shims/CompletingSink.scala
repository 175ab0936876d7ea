package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/**
 * Stands before a sink that remembers batches, while a query does again what was undone. Such a sink takes a batch for one
 * that it has, and does not compute it; its state would be missing, and its watermark. So it is computed here then.
 */
private final class CompletingSink(sink: Sink, until: Long, wasComputed: Long => Boolean, passed: () => Unit) extends Sink {
  override def addBatch(batch: Long, data: DataFrame): Unit = {
    sink.addBatch(batch, data)
    if (batch <= until && !wasComputed(batch))
      data.asInstanceOf[classic.DataFrame].queryExecution.toRdd.foreach(_ => ())
    if (batch >= until) passed()
  }

  override def toString: String = sink.toString // it is in the query's progress
}

private object CompletingSink {
  /** Until the query has passed the batch; of a sink of Spark's newer kind, which always computes, nothing is changed. */
  def putBefore(execution: StreamExecution, until: Long, wasComputed: Long => Boolean): Unit = execution.sink match {
    case sink: Sink => SparkInternals.querySink.set(execution, new CompletingSink(sink, until, wasComputed, () => SparkInternals.querySink.set(execution, sink)))
    case _ =>
  }
}
