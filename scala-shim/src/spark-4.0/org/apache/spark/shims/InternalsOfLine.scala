package org.apache.spark.shims

import java.lang.reflect.Field

import org.apache.spark.sql.execution.streaming.StreamExecution
import org.apache.spark.sql.execution.streaming.state.{LoadStore, RocksDB, RocksDBFileManager}

/** Private members that are reached in Spark 4.0 only. Later lines have an extension point for each. */
private[shims] trait InternalsOfLine extends PrivateMembers {

  /** `StreamExecution.sparkSessionForStream`. */
  def querySession: Field = session.member
  private val session =
    access("StreamExecution.sparkSessionForStream", Capability.QuerySettings)(compiledField(classOf[StreamExecution], "sparkSessionForStream"))

  /** `RocksDB.fileManager`. */
  def rocksDBFileManager: Field = fileManager.member
  private val fileManager = access("RocksDB.fileManager", Capability.HostStore)(compiledField(classOf[RocksDB], "fileManager"))

  /** `RocksDBFileManager.fs`: the file system of the checkpoint. */
  def fileSystemOfStore: Field = fileSystem.member
  private val fileSystem = access("RocksDBFileManager.fs", Capability.HostStore)(compiledField(classOf[RocksDBFileManager], "fs"))

  /** Ends the calling thread's hold of an instance: `RocksDB.release`. */
  def releaseRocksDB(store: RocksDB): Unit = {
    release.member.invoke(store, LoadStore, None)
    ()
  }
  private val release = access("RocksDB.release", Capability.OpenCopies) {
    classOf[RocksDB].getDeclaredMethods.find(_.getName == "release").map(accessible(_)).getOrElse(throw new NoSuchMethodException("release"))
  }
}
