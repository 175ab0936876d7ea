package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

import org.apache.spark.sql.execution.streaming.state.RocksDBCheckpointMetadata

/** The version in the first row of an archive's `metadata`. */
object ArchiveVersion {

  /** Whether it is the same for both formats of the checkpoint. */
  val IsOneForAll = true

  /** The version that stock Spark writes for a query. */
  def of(@unused hasUniqueIds: Boolean): Int = RocksDBCheckpointMetadata.VERSION

  /** The version that Spark writes and reads in this JVM. */
  def takeForThisJvm(@unused hasUniqueIds: Boolean): Int = RocksDBCheckpointMetadata.VERSION
}
