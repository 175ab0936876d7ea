package org.apache.spark.sql.execution.streaming.state.shims

import java.io.InputStream
import java.nio.charset.StandardCharsets.UTF_8

import scala.io.Source

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.{CommitLog, CommitMetadata, OffsetSeq}
import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadata, OperatorStateMetadataV1, OperatorStateMetadataV2, StateStoreMetadata}

/** The logs of a checkpoint, and the metadata of operators, in Spark 4.0 and 4.1. */
private[shims] object CheckpointLogs {

  /** A commit log that is only read. Spark's own reads only entries of the version that the session's settings name. */
  def commits(session: SparkSession, directory: String): CommitLog = new CommitLog(session, directory) {
    override protected[sql] def deserialize(in: InputStream): CommitMetadata =
      Source.fromInputStream(in, UTF_8.name()).getLines().toSeq match {
        case Seq(Version(), metadata, _*) => CommitMetadata(metadata)
        case Seq(Version()) => CommitMetadata()
        case first +: _ => throw new IllegalStateException(s"a commit log has an entry that begins with `${first.take(20)}`, not with its version")
        case _ => throw new IllegalStateException("a commit log has an empty entry")
      }
  }

  private val Version = "v[12]".r

  /** The format of the state after this commit. The log of the query reads only entries of this version, with or without state. */
  def formatOf(commit: CommitMetadata): Int = if (commit.stateUniqueIds.isDefined) 2 else 1

  /** A setting of the query when it wrote this entry of the offset log. */
  def setting(entry: OffsetSeq, key: String): Option[String] = entry.metadata.flatMap(_.conf.get(key))

  /** The end offsets of the entry's batch, a JSON text for each source; null for a source without data. */
  def offsets(entry: OffsetSeq): Seq[String] = entry.offsets.map(_.map(_.json).orNull)

  def storesOf(operator: OperatorStateMetadata): Seq[StateStoreMetadata] = operator match {
    case first: OperatorStateMetadataV1 => first.stateStoreInfo.toSeq
    case second: OperatorStateMetadataV2 => second.stateStoreInfo.toSeq
  }
}
