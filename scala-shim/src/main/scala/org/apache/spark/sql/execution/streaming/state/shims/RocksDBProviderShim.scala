package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * Stock RocksDB's provider with the three shims that Spark 4.2 leaves open (`createRocksDB`,
 * `RocksDB.createFileManager`, `RocksDBFileManager.getFileSystem`) turned into plain methods.
 *
 * It lives in this package because `createRocksDB` names `RocksDBEventForwarder`, which is private to `state`.
 */
abstract class RocksDBProviderShim extends RocksDBStateStoreProvider {

  /** Makes the watcher of one store; `storeDir` is where the checkpoint keeps the store's files. */
  protected def watch(storeDir: Path): SnapshotLoadWatcher

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] =
    super.supportedCustomMetrics ++ RestoreMetrics.supported ++ DrainMetric.supported

  private var taken = Option.empty[RocksDBShim]

  /** A provider that could not be made, as when its task is killed just then, is never closed: an open copy would stay for ever. */
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
        for (open <- taken) { // not here, with the lock of all stores: a thread that brings a copy on may be at it
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
        taken = Some(open)
        localRootDir.delete() // it has one of its own
        open
      case None => new RocksDBShim(watch(new Path(dfsRootDir)), dfsRootDir, conf, localRootDir, hadoopConf, loggingId,
        useColumnFamilies, enableStateStoreCheckpointIds, partitionId, eventForwarder, uniqueId)
    }
}
