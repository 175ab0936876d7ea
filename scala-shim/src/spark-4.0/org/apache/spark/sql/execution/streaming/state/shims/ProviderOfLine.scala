package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * How a provider makes its RocksDB instance in Spark 4.0: in a lazy value, from arguments of `init` that the provider keeps in
 * private fields. They are remembered here as well.
 */
private[shims] abstract class ProviderOfLine extends RocksDBStateStoreProvider {
  @volatile private var settings = Option.empty[(StateStoreConf, Configuration, Boolean)]

  /** The instance for these arguments. Called once, by the task's thread. */
  protected def instanceFor(arguments: RocksDBArguments): RocksDB

  override def init(
      stateStoreId: StateStoreId,
      keySchema: StructType,
      valueSchema: StructType,
      keyStateEncoderSpec: KeyStateEncoderSpec,
      useColumnFamilies: Boolean,
      storeConf: StateStoreConf,
      hadoopConf: Configuration,
      useMultipleValuesPerKey: Boolean,
      stateSchemaProvider: Option[StateSchemaProvider]): Unit = {
    settings = Some((storeConf, hadoopConf, useColumnFamilies))
    super.init(stateStoreId, keySchema, valueSchema, keyStateEncoderSpec, useColumnFamilies, storeConf, hadoopConf,
      useMultipleValuesPerKey, stateSchemaProvider)
  }

  override private[sql] lazy val rocksDB: RocksDB = {
    val (storeConf, hadoopConf, hasColumnFamilies) = settings.getOrElse(throw new IllegalStateException("the provider is not initialized"))
    val id = stateStoreId
    val name = s"StateStoreId(opId=${id.operatorId},partId=${id.partitionId},name=${id.storeName})"
    instanceFor(RocksDBArguments(id.storeCheckpointLocation().toString, RocksDBConf(storeConf), Directories.ofStore(name), hadoopConf,
      name, hasColumnFamilies, storeConf.enableStateStoreCheckpointIds, id.partitionId))
  }
}
