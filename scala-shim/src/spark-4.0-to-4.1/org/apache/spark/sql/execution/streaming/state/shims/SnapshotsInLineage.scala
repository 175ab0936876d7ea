package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{LineageItem, RocksDBFileManager}

/** How the snapshots among the versions of a lineage are found in Spark 4.0 and 4.1: only the newest of them. */
private[shims] trait SnapshotsInLineage extends RocksDBFileManager {

  /** The snapshots that are known without a look into the checkpoint, the newest first; none where the checkpoint has to be read. */
  protected def knownSnapshots(lineage: Array[LineageItem]): Seq[(Long, String)]

  override def getLatestSnapshotVersionAndUniqueIdFromLineage(lineage: Array[LineageItem]): Option[(Long, String)] =
    knownSnapshots(lineage).headOption.orElse(super.getLatestSnapshotVersionAndUniqueIdFromLineage(lineage))
}
