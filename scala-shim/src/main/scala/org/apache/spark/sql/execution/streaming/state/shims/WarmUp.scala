package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File
import java.util.UUID

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.execution.streaming.state.{RocksDB, RocksDBConf, StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId}
import org.apache.spark.util.Utils

/**
 * What an executor does once before its first task, so that the first task need not do it. Called by the executor plugin's threads.
 * Without it the first tasks take longer.
 */
object WarmUp {

  /**
   * Loads RocksDB's native library, and the classes for JSON and zip: writes and reads a small store. Spark 4.0 takes the version of all
   * archives from the first one. So nothing is written there, and only the library is loaded.
   */
  def run(conf: SparkConf, fileManager: String): Unit =
    if (ArchiveVersion.IsOneForAll) writeAndRead(conf, fileManager) else org.rocksdb.RocksDB.loadLibrary()

  private def writeAndRead(conf: SparkConf, fileManager: String): Unit = {
    val scratch = Utils.createTempDir(namePrefix = "mooring-warm-up")
    try {
      val hadoopConf = SparkHadoopUtil.get.newConfiguration(conf)
      hadoopConf.set(StreamShims.FileManagerKey, fileManager)
      def store(name: String): RocksDB = new RocksDB(new File(scratch, "checkpoint").toURI.toString, RocksDBConf(),
        new File(scratch, name), hadoopConf, "mooring-warm-up", useColumnFamilies = false,
        enableStateStoreCheckpointIds = true)
      val first = store("a")
      val id = try {
        first.load(0, None)
        first.put(Array[Byte](1), Array[Byte](1))
        first.commit()._2.stateStoreCkptId
      } finally first.close()
      val second = store("b")
      try second.load(1, id)
      finally second.close()
    } finally Utils.deleteRecursively(scratch)
  }

  /** Connects the executor with Spark's coordinator of state stores, by a question about a store that does not exist. */
  def askCoordinator(): Unit = {
    val noStore = StateStoreProviderId(StateStoreId("mooring-warm-up", 0, 0), UUID.randomUUID())
    StateStoreCoordinatorRef.forExecutor(SparkEnv.get).verifyIfInstanceActive(noStore, SparkEnv.get.executorId)
    ()
  }
}
