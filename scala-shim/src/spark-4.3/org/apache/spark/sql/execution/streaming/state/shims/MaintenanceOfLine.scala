package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDB

/** The maintenance of a store in Spark 4.3: uploads and removals run in pools of their own, and may overlap. */
private[shims] trait MaintenanceOfLine extends RocksDB {

  /** Runs `work` when the executor is idle. */
  protected def whenIdle(work: => Unit): Unit

  override def doSnapshotMaintenance(): Unit = whenIdle(super.doSnapshotMaintenance())
  override def doCleanupMaintenance(): Unit = whenIdle(super.doCleanupMaintenance())
}
