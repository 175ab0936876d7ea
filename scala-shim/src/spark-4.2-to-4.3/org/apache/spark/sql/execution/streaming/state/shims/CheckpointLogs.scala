package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, CommitMetadataBase, OffsetMap, OffsetSeq, OffsetSeqBase}
import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadata, StateStoreMetadata}

/** The logs of a checkpoint, and the metadata of operators, in Spark 4.2 and 4.3. */
private[shims] object CheckpointLogs {

  /** A commit log that is only read, whatever version its entries have. */
  def commits(session: SparkSession, directory: String): CommitLog = new CommitLog(session, directory, readOnly = true)

  /** The format of the state after this commit. */
  def formatOf(commit: CommitMetadataBase): Int = if (commit.stateUniqueIds.exists(_.nonEmpty)) 2 else 1

  /** A setting of the query when it wrote this entry of the offset log. */
  def setting(entry: OffsetSeqBase, key: String): Option[String] = entry.metadataOpt.flatMap(_.conf.get(key))

  /** The end offsets of the entry's batch, a JSON text for each source; null for a source without data. */
  def offsets(entry: OffsetSeqBase): Seq[String] = entry match {
    case positions: OffsetSeq => positions.offsets.map(_.map(_.json).orNull)
    case named: OffsetMap => named.offsetsMap.toSeq.sortBy(_._1).map(_._2.map(_.json).orNull)
  }

  def storesOf(operator: OperatorStateMetadata): Seq[StateStoreMetadata] = operator.stateStoresMetadata.toSeq
}
