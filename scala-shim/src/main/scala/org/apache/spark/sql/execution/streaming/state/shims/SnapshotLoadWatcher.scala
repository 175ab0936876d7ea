package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.hadoop.fs.FileSystem

/** What the shim tells, and asks, about one store. Called by the one thread that holds the store. */
trait SnapshotLoadWatcher {

  /** The file system for SST and log files: `stock`, or something in front of it. */
  def fileSystem(stock: FileSystem): FileSystem

  /** Whether the host keeps this file of the store's. */
  def keeps(name: String): Boolean

  /** The store is asked for; nothing is known yet of whether files have to be read. */
  def opening(version: Long): Unit

  /**
   * A snapshot is about to be brought to the working directory. `doubts` is how often in a row the store failed after
   * it was brought here: from 1 on no local copy is trusted unread, from 2 on none is.
   */
  def loading(version: Long, doubts: Int): Unit

  /** It fails again and again to be opened: what the host keeps of it to tell versions by may have been damaged when it came. */
  def distrusting(): Unit

  /** The store is not asked for any more, however that ended. */
  def closing(): Unit

  /** The store stands at `version` after `milliseconds`, whether or not anything had to be loaded. */
  def loaded(version: Long, milliseconds: Long): Unit

  /** The store was opened with the snapshot of `version`, which has these SST and log files. */
  def opened(version: Long, id: Option[String], files: Set[String]): Unit

  /**
   * A snapshot of `version` was saved, which has these SST and log files, with their lengths. Spark is to retain so many versions.
   * Called by any thread.
   */
  def saved(version: Long, id: Option[String], files: Map[String, Long], retained: Int): Unit

  /** A commit or an upload has ended, well or badly, and nothing of it counts yet. Called by the thread that did it. */
  def written(): Unit

  /** The store is a provider's from now on; it was a copy. The provider has not asked for a version yet. */
  def takenOver(): Unit

  /** A version was committed; the store's SST files weigh `bytes`, by the figures that RocksDB takes at each commit. */
  def committed(bytes: Long): Unit

  /** A version was committed, on top of the one that `base` names; `keys` is -1 where they are not counted. */
  def versionCommitted(version: Long, id: Option[String], base: Option[String], keys: Long, bytes: Long): Unit

  /** How many keys the version has that was committed under this unique id. */
  def counted(version: Long, id: String, keys: KeyCounts): Unit
}
