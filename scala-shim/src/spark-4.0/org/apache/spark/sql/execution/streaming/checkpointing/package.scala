package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.execution.streaming

/** Names that Spark 4.1 moved here. In Spark 4.0 they are in the package `streaming`. */
package object checkpointing {
  type CheckpointFileManager = streaming.CheckpointFileManager
  val CheckpointFileManager: streaming.CheckpointFileManager.type = streaming.CheckpointFileManager
  type CommitLog = streaming.CommitLog
  type CommitMetadata = streaming.CommitMetadata
  val CommitMetadata: streaming.CommitMetadata.type = streaming.CommitMetadata
  type FileSystemBasedCheckpointFileManager = streaming.FileSystemBasedCheckpointFileManager
  type OffsetSeq = streaming.OffsetSeq
}
