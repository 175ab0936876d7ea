package io.mooring

import io.mooring.standby.StoreWatcher
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state.shims.{RocksDBProviderShim, SnapshotLoadWatcher}

/**
 * Stock's provider of RocksDB state stores, with files that the host keeps. Its checkpoints are the same as the stock provider's, byte by
 * byte. It is set in `spark.sql.streaming.stateStore.providerClass`.
 */
final class HostAffinityStateStoreProvider extends RocksDBProviderShim {
  override protected def watch(storeDir: Path): SnapshotLoadWatcher = new StoreWatcher(storeDir)
}
