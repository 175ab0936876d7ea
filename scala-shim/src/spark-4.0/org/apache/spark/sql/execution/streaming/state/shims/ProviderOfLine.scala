package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._

/**
 * How a provider makes its RocksDB instance in Spark 4.0: in a lazy value, from arguments of `init` that the provider keeps in
 * private fields. They are remembered here as well.
 */
private[shims] abstract class ProviderOfLine extends RocksDBStateStoreProvider {
  @volatile private var settings = Option.empty[(StateStoreConf, Configuration, Boolean)]

  /** The instance for these arguments. Called once, by the task's thread. */
  protected def instanceFor(arguments: RocksDBArguments): RocksDB

  /** Called at the start of `init`, with arguments of it. */
  protected def initializing(storeConf: StateStoreConf, hadoopConf: Configuration, hasColumnFamilies: Boolean): Unit =
    settings = Some((storeConf, hadoopConf, hasColumnFamilies))

  override private[sql] lazy val rocksDB: RocksDB = {
    val (storeConf, hadoopConf, hasColumnFamilies) = settings.getOrElse(throw new IllegalStateException("the provider is not initialized"))
    val id = stateStoreId
    val name = s"StateStoreId(opId=${id.operatorId},partId=${id.partitionId},name=${id.storeName})"
    instanceFor(RocksDBArguments(id.storeCheckpointLocation().toString, RocksDBConf(storeConf), Directories.ofStore(name), hadoopConf,
      name, hasColumnFamilies, storeConf.enableStateStoreCheckpointIds, id.partitionId, ArgumentsOfLine()))
  }
}
