package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDB

/** The maintenance of a store in Spark 4.0 to 4.2: uploads and removals are one piece of work. */
private[shims] trait MaintenanceOfLine extends RocksDB {

  /** Runs `work` when the executor is idle. */
  protected def whenIdle(work: => Unit): Unit

  override def doMaintenance(): Unit = whenIdle(super.doMaintenance())
}
