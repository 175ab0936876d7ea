package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

/** The version in the first line of an archive's `metadata`. From Spark 4.1 on it is the same for both formats of the checkpoint. */
private[shims] object ArchiveVersion {

  /** Called before a thread reads an archive, or makes an instance of RocksDB. */
  def prepare(@unused hasUniqueIds: Boolean): Unit = ()
}
