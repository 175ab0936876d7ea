package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDB

/** The maintenance of a store in Spark 4.3: uploads and removals run in pools of their own, and may overlap. */
private[shims] trait MaintenanceOfLine extends RocksDB {

  /** Runs `work` when the executor is idle. */
  protected def whenIdle(work: => Unit): Unit

  /** An upload has ended: the host keeps the files that it has written. */
  protected def filesAreWritten(): Unit

  override def doSnapshotMaintenance(): Unit = whenIdle {
    try super.doSnapshotMaintenance()
    finally filesAreWritten()
  }

  override def doCleanupMaintenance(): Unit = whenIdle(super.doCleanupMaintenance())
}
