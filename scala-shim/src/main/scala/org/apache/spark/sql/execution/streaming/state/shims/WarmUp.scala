package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File
import java.util.UUID

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.execution.streaming.state.{RocksDB, RocksDBConf, StateStoreCoordinatorRef, StateStoreId, StateStoreProviderId}
import org.apache.spark.util.Utils

/** Lives a small store's whole life once, so that the first real one finds classes loaded: native library, JSON, zip. */
object WarmUp {
  def run(conf: SparkConf, fileManager: String): Unit = {
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

  /** The executor's first word with the coordinator of state stores, about one that nobody has. */
  def askCoordinator(): Unit = {
    val nobodys = StateStoreProviderId(StateStoreId("mooring-warm-up", 0, 0), UUID.randomUUID())
    StateStoreCoordinatorRef.forExecutor(SparkEnv.get).verifyIfInstanceActive(nobodys, SparkEnv.get.executorId)
    ()
  }
}
