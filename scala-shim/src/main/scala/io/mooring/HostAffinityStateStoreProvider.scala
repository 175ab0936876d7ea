package io.mooring

import io.mooring.standby.StoreWatcher
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state.shims.{RocksDBProviderShim, SnapshotLoadWatcher}

/**
 * Stock RocksDB's provider, whose files the host keeps. Its checkpoints are those of the stock provider to the byte.
 */
final class HostAffinityStateStoreProvider extends RocksDBProviderShim {
  override protected def watch(storeDir: Path): SnapshotLoadWatcher = new StoreWatcher(storeDir)
}
