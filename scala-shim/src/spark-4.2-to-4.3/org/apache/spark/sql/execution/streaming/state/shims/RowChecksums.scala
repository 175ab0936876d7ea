package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDBConf

/** Checksums of the rows of a store: a setting of Spark 4.2 and 4.3. */
private[shims] object RowChecksums {
  def areWritten(conf: RocksDBConf): Boolean = conf.rowChecksumEnabled
}
