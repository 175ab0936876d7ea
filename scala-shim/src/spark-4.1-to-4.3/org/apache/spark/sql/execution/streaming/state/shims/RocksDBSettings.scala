package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{RocksDBConf, StateStoreConf}

/** The settings of stores in Spark 4.1 to 4.3. */
private[shims] object RocksDBSettings {

  /** Whether instances with these settings are alike. `RocksDBConf` holds its `StateStoreConf`, which has no equality of its own. */
  def areSame(one: RocksDBConf, other: RocksDBConf): Boolean = one.copy(stateStoreConf = other.stateStoreConf) == other

  /** Whether each file of the checkpoint's state gets a file with its checksum beside it. */
  def haveFileChecksums(stores: StateStoreConf): Boolean = stores.checkpointFileChecksumEnabled
}
