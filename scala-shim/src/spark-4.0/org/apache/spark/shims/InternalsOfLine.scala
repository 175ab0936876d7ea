package org.apache.spark.shims

import org.apache.spark.sql.execution.streaming.StreamExecution
import org.apache.spark.sql.execution.streaming.state.{LoadStore, RocksDB, RocksDBFileManager}

/** Private members that are reached in Spark 4.0 only. Later lines have an extension point for each. */
private[shims] trait InternalsOfLine extends PrivateMembers {

  val querySession = field("StreamExecution.sparkSessionForStream", Capability.QuerySettings)(classOf[StreamExecution])
  val rocksDBFileManager = field("RocksDB.fileManager", Capability.HostStore)(classOf[RocksDB])

  /** The file system of the checkpoint. */
  val fileSystemOfStore = field("RocksDBFileManager.fs", Capability.HostStore)(classOf[RocksDBFileManager])

  /** Ends the calling thread's hold of an instance: `RocksDB.release`. */
  def releaseRocksDB(store: RocksDB): Unit = {
    release.member.invoke(store, LoadStore, None)
    ()
  }
  private val release = access("RocksDB.release", Capability.OpenCopies) {
    classOf[RocksDB].getDeclaredMethods.find(_.getName == "release").map(accessible(_)).getOrElse(throw new NoSuchMethodException("release"))
  }
}
