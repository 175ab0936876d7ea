package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{RocksDB, StateStoreCheckpointInfo}

/** How a version of a store is loaded and committed in Spark 4.0 and 4.1. */
private[shims] trait LoadsOfLine extends RocksDB {

  /** Runs `load`. With `isToBeEmpty` it loads an empty store under this version: never in these lines. */
  protected def loading(version: Long, id: Option[String], readOnly: Boolean, isToBeEmpty: Boolean)(load: => RocksDB): RocksDB

  /** Runs `commit`. */
  protected def committing(commit: => (Long, StateStoreCheckpointInfo)): (Long, StateStoreCheckpointInfo)

  /** Loads a version for an open copy. Nothing can be written to it. */
  def loadCopy(version: Long, id: String): Unit = {
    load(version, Some(id), readOnly = true)
    ()
  }

  override def load(version: Long, stateStoreCkptId: Option[String], readOnly: Boolean): RocksDB =
    loading(version, stateStoreCkptId, readOnly, isToBeEmpty = false)(super.load(version, stateStoreCkptId, readOnly))

  override def commit(): (Long, StateStoreCheckpointInfo) = committing(super.commit())
}
