package org.apache.spark.shims

import java.lang.reflect.InvocationTargetException

import org.apache.spark.sql.execution.streaming.StreamExecution
import org.apache.spark.sql.execution.streaming.state.{LoadStore, RocksDB, RocksDBFileManager, RocksDBOpType}

/** Private members that are reached in Spark 4.0 only. Later lines have an extension point for each. */
private[shims] trait InternalsOfLine extends PrivateMembers {

  val querySession = field("StreamExecution.sparkSessionForStream", Capability.QuerySettings)(classOf[StreamExecution])
  val rocksDBFileManager = field("RocksDB.fileManager", Capability.HostStore)(classOf[RocksDB])

  /** The file system of the checkpoint. */
  val fileSystemOfStore = field("RocksDBFileManager.fs", Capability.HostStore)(classOf[RocksDBFileManager])

  /**
   * Makes the calling thread the owner of an instance: `RocksDB.acquire`. It waits while another thread is the owner; after
   * `lockAcquireTimeoutMs` it throws Spark's own error.
   */
  def acquireRocksDB(store: RocksDB): Unit =
    try {
      acquire.member.invoke(store, LoadStore)
      ()
    } catch { case e: InvocationTargetException => throw e.getCause }
  private val acquire =
    access("RocksDB.acquire", Capability.HostStore)(accessible(classOf[RocksDB].getDeclaredMethod("acquire", classOf[RocksDBOpType])))

  /** Then the instance has no owner: `RocksDB.release`. */
  def releaseRocksDB(store: RocksDB): Unit = {
    release.member.invoke(store, LoadStore, None)
    ()
  }
  private val release = access("RocksDB.release", Capability.HostStore) {
    classOf[RocksDB].getDeclaredMethods.find(_.getName == "release").map(accessible(_)).getOrElse(throw new NoSuchMethodException("release"))
  }
}
