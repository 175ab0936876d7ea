package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.Utils

/**
 * Stock Spark's provider of RocksDB stores, which makes a `RocksDBShim` for each store, or takes an open copy over.
 *
 * Called by the task's thread, with Spark's lock of all providers. Depends on `ProviderOfLine`, `RocksDBOfLine` and
 * `FileManagerOfLine`, which say where a line of Spark makes these three.
 * Without it there is no store on the host, no hot standby, and no custom metric of Mooring.
 */
abstract class RocksDBProviderShim extends ProviderOfLine {

  /**
   * Makes the observer of the store whose files the checkpoint keeps in `storeDir`. `hasUniqueIds`: whether its versions have unique ids,
   * as in format v2 of the checkpoint.
   */
  protected def watch(storeDir: Path, hasUniqueIds: Boolean): StoreObserver

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
    try {
      initializing(storeConf, hadoopConf, useColumnFamilies)
      super.init(stateStoreId, keySchema, valueSchema, keyStateEncoderSpec, useColumnFamilies, storeConf, hadoopConf,
        useMultipleValuesPerKey, stateSchemaProvider)
    } catch {
      case e: Throwable =>
        for (open <- takenOver) {
          // Another thread may still be advancing the copy. This thread has the lock of all providers, and must not wait.
          val closing = new Thread(() => open.close(), "mooring-close-copy")
          closing.setDaemon(true)
          closing.start()
        }
        throw e
    }

  override protected def instanceFor(arguments: RocksDBArguments): RocksDB = OpenStores.take(arguments) match {
    case Some(open) =>
      takenOver = Some(open)
      Utils.deleteRecursively(arguments.localDirectory) // the copy has a directory of its own
      open
    case None => new RocksDBShim(watch(new Path(arguments.directory), arguments.hasUniqueIds), arguments)
  }
}
