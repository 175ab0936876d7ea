package io.mooring

import io.mooring.standby.StoreWatcher
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state.shims.{RocksDBProviderShim, StoreObserver}

/**
 * Spark's provider of RocksDB state stores, with files that the host keeps (`RocksDBProviderShim`). It writes the same files to the checkpoint
 * as Spark's own provider, byte by byte. `ConfOverrides` sets it in `spark.sql.streaming.stateStore.providerClass`.
 */
final class HostAffinityStateStoreProvider extends RocksDBProviderShim {
  override protected def watch(storeDir: Path, hasUniqueIds: Boolean): StoreObserver = new StoreWatcher(storeDir, hasUniqueIds)
}
