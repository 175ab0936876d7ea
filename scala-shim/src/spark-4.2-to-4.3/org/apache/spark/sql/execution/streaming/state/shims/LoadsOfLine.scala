package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{RocksDB, StateStoreCheckpointInfo}

/** How a version of a store is loaded and committed in Spark 4.2 and 4.3. */
private[shims] trait LoadsOfLine extends RocksDB {

  /** Runs `load`. With `isToBeEmpty` it loads an empty store under this version. */
  protected def loading(version: Long, id: Option[String], readOnly: Boolean, isToBeEmpty: Boolean)(load: => RocksDB): RocksDB

  /** Runs `commit`. */
  protected def committing(commit: => (Long, StateStoreCheckpointInfo)): (Long, StateStoreCheckpointInfo)

  /** Loads a version for an open copy. Nothing can be written to it. */
  def loadCopy(version: Long, id: String): Unit = {
    load(version, Some(id), readOnly = true, loadEmpty = false)
    ()
  }

  override def load(version: Long, stateStoreCkptId: Option[String], readOnly: Boolean, loadEmpty: Boolean): RocksDB =
    loading(version, stateStoreCkptId, readOnly, loadEmpty)(super.load(version, stateStoreCkptId, readOnly, loadEmpty))

  override def commit(forceSnapshot: Boolean): (Long, StateStoreCheckpointInfo) = committing(super.commit(forceSnapshot))
}
