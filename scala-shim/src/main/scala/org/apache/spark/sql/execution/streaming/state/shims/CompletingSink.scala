package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.{classic, DataFrame}
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/**
 * Stands in front of a sink that remembers batches, while a query repeats batches that `mooring restore` has undone. Such a sink
 * has these batches already, and skips them without computing them: their state and watermark would be missing. So they are
 * computed here.
 *
 * Called by the stream's thread. Depends on `StreamExecution.sink`. Without it a restored query has wrong state after its sink has
 * skipped batches.
 *
 * @param until       the last batch that the sink may have already
 * @param wasComputed whether the sink has computed a batch
 * @param passed      called after batch `until`
 */
private final class CompletingSink(sink: Sink, until: Long, wasComputed: Long => Boolean, passed: () => Unit) extends Sink {
  override def addBatch(batch: Long, data: DataFrame): Unit = {
    sink.addBatch(batch, data)
    if (batch <= until && !wasComputed(batch))
      data.asInstanceOf[classic.DataFrame].queryExecution.toRdd.foreach(_ => ())
    if (batch >= until) passed()
  }

  override def toString: String = sink.toString // shown in the query's progress
}

private object CompletingSink {
  /** Wraps the query's sink until batch `until` has passed. A sink of the newer API always computes, and stays as it is. */
  def wrapSinkOf(execution: StreamExecution, until: Long, wasComputed: Long => Boolean): Unit = execution.sink match {
    case sink: Sink =>
      val ofQuery = SparkInternals.querySink.member
      ofQuery.set(execution, new CompletingSink(sink, until, wasComputed, () => ofQuery.set(execution, sink)))
    case _ =>
  }
}
