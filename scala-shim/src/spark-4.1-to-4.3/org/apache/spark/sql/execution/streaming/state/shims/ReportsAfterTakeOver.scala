package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{RocksDBEventForwarder, StateStoreId}

/** Passes a store's reports for Spark's coordinator to the provider that has taken the store over. Drops the reports before that. */
private[shims] final class ReportsAfterTakeOver(partition: Int)
  extends RocksDBEventForwarder(ReportsAfterTakeOver.NoRun, StateStoreId("", 0, partition)) {
  @volatile private var to = Option.empty[RocksDBEventForwarder]

  /** From now on reports go where an instance with these arguments would report. */
  def passOn(arguments: RocksDBArguments): Unit = to = arguments.ofLine.reports

  override def reportSnapshotUploaded(version: Long): Unit = to.foreach(_.reportSnapshotUploaded(version))
}

private object ReportsAfterTakeOver {
  val NoRun: String = new java.util.UUID(0, 0).toString
}
