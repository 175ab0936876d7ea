package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDBConf

/** Checksums of the rows of a store: Spark 4.0 and 4.1 have none. */
private[shims] object RowChecksums {
  def areWritten(conf: RocksDBConf): Boolean = false
}
