package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import scala.annotation.unused

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._

/**
 * How a provider makes its RocksDB instance in Spark 4.1 to 4.3. It lives in this package because `createRocksDB` names
 * `RocksDBEventForwarder`, which is private to `state`.
 */
private[shims] abstract class ProviderOfLine extends RocksDBStateStoreProvider {

  /** The instance for these arguments. Called once, by the task's thread. */
  protected def instanceFor(arguments: RocksDBArguments): RocksDB

  /** Called at the start of `init`, with arguments of it. `createRocksDB` has all that is needed. */
  protected def initializing(
      @unused storeConf: StateStoreConf, @unused hadoopConf: Configuration, @unused hasColumnFamilies: Boolean): Unit = ()

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
    instanceFor(RocksDBArguments(dfsRootDir, conf, localRootDir, hadoopConf, loggingId, useColumnFamilies,
      enableStateStoreCheckpointIds, partitionId, ArgumentsOfLine(eventForwarder, uniqueId)))
}
