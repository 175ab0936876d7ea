package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata
import org.apache.spark.sql.internal.SQLConf

/**
 * The version in the first line of an archive's `metadata`. In Spark 4.0 this is the format of the checkpoint. A JVM takes it once, from
 * the settings of the thread that first reads or writes an archive, and then refuses archives of the other format. In stock Spark
 * this thread is a task of the query. Mooring's threads have no settings of a query, so they call `prepare` first.
 */
private[shims] object ArchiveVersion {

  /** Called before a thread reads an archive, or makes an instance of RocksDB. Has no effect after the first archive of this JVM. */
  def prepare(hasUniqueIds: Boolean): Unit = {
    val settings = new SQLConf
    settings.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, if (hasUniqueIds) 2 else 1)
    SQLConf.withExistingConf(settings)(RocksDBCheckpointMetadata.VERSION)
  }
}
