package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata
import org.apache.spark.sql.internal.SQLConf

/**
 * The version in the first row of an archive's `metadata`. In Spark 4.0 it is the format of the checkpoint. A JVM takes it once, from the
 * settings of the thread that first needs it. In stock Spark this thread is a task of a query.
 */
object ArchiveVersion {

  /** Whether it is the same for both formats of the checkpoint. */
  val IsOneForAll = false

  /** The version that stock Spark writes for a query. `hasUniqueIds` is true for a checkpoint of format v2. */
  def of(hasUniqueIds: Boolean): Int = if (hasUniqueIds) 2 else 1

  /** The version that Spark writes and reads in this JVM. If no thread has needed it yet, it is from now on that of this format. */
  def takeForThisJvm(hasUniqueIds: Boolean): Int = {
    val settings = new SQLConf
    settings.setConf(SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION, of(hasUniqueIds))
    SQLConf.withExistingConf(settings)(RocksDBCheckpointMetadata.VERSION)
  }
}
