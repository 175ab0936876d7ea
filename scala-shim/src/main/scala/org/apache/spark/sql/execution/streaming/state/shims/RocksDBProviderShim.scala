package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * Stock's provider of RocksDB stores, which makes a `RocksDBShim` for each store, or takes an open copy over.
 *
 * Called by the task's thread, with Spark's lock of all providers. Depends on three extension points of Spark 4.2:
 * `RocksDBStateStoreProvider.createRocksDB`, `RocksDB.createFileManager` and `RocksDBFileManager.getFileSystem`. It lives in this
 * package because `createRocksDB` names `RocksDBEventForwarder`, which is private to `state`.
 * Without it there is no store on the host, no hot standby, and no custom metric of Mooring.
 */
abstract class RocksDBProviderShim extends RocksDBStateStoreProvider {

  /** Makes the watcher of the store whose files the checkpoint keeps in `storeDir`. */
  protected def watch(storeDir: Path): StoreObserver

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] =
    super.supportedCustomMetrics ++ RestoreMetrics.supported ++ DrainMetric.supported

  private var takenOver = Option.empty[RocksDBShim]

  /** Spark never closes a provider whose `init` fails, as when its task is killed: then a copy that was taken over is closed here. */
  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]): Unit =
    try super.init(stateStoreId, keySchema, valueSchema, keyStateEncoderSpec, useColumnFamilies, storeConf, hadoopConf,
      useMultipleValuesPerKey, stateSchemaProvider)
    catch {
      case e: Throwable =>
        for (open <- takenOver) {
          // Another thread may still be advancing the copy. This thread has the lock of all providers, and must not wait.
          val closing = new Thread(() => open.close(), "mooring-close-copy")
          closing.setDaemon(true)
          closing.start()
        }
        throw e
    }

  override protected def createRocksDB(
      dfsRootDir: String,
      conf: RocksDBConf,
      localRootDir: File,
      hadoopConf: Configuration,
      loggingId: String,
      useColumnFamilies: Boolean,
      enableStateStoreCheckpointIds: Boolean,
      partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder],
      uniqueId: Option[String]): RocksDB =
    OpenStores.take(dfsRootDir, conf, useColumnFamilies, enableStateStoreCheckpointIds, partitionId, eventForwarder) match {
      case Some(open) =>
        takenOver = Some(open)
        localRootDir.delete() // the copy has a directory of its own
        open
      case None => new RocksDBShim(watch(new Path(dfsRootDir)), dfsRootDir, conf, localRootDir, hadoopConf, loggingId,
        useColumnFamilies, enableStateStoreCheckpointIds, partitionId, eventForwarder, uniqueId)
    }
}
