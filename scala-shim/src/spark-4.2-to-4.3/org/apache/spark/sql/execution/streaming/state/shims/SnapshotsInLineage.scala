package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.{LineageItem, RocksDBFileManager}

/** How the snapshots among the versions of a lineage are found in Spark 4.2 and 4.3: all of them, the newest first. */
private[shims] trait SnapshotsInLineage extends RocksDBFileManager {

  /** The snapshots that are known without a look into the checkpoint, the newest first; none where the checkpoint has to be read. */
  protected def knownSnapshots(lineage: Array[LineageItem]): Seq[(Long, String)]

  override def getSnapshotVersionsAndUniqueIdsFromLineage(lineage: Array[LineageItem]): Seq[(Long, String)] = {
    val known = knownSnapshots(lineage)
    if (known.nonEmpty) known else super.getSnapshotVersionsAndUniqueIdsFromLineage(lineage)
  }
}
