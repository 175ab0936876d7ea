package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{RocksDBConf, StateStoreConf}

/** The settings of stores in Spark 4.0. */
private[shims] object RocksDBSettings {

  /** Whether instances with these settings are alike. */
  def areSame(one: RocksDBConf, other: RocksDBConf): Boolean = one == other

  /** Whether each file of the checkpoint's state gets a file with its checksum beside it: never in Spark 4.0. */
  def haveFileChecksums(stores: StateStoreConf): Boolean = false
}
