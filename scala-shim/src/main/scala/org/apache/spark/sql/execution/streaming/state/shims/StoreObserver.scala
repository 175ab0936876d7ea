package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.hadoop.fs.FileSystem

/**
 * Observes the loads, commits and uploads of one store, and answers which of its files the host keeps. `RocksDBShim`,
 * `FileManagerShim` and its base class `FileManagerOfLine` call it: on the thread that uses the store, unless a method says otherwise.
 *
 * Log files are here RocksDB's own: the files of its write-ahead log.
 */
trait StoreObserver {

  /** The file system for SST and log files: `stock`, or a file system in front of `stock`. */
  def fileSystem(stock: FileSystem): FileSystem

  /** Runs `write`, in which this thread uploads the archive of a snapshot. Called on Spark 4.0 only. */
  def writingArchive(write: => Unit): Unit

  /** Whether the host keeps this file of the store. */
  def keeps(name: String): Boolean

  /** A task asks for the store at `version`. It is not known yet whether files have to be read. */
  def opening(version: Long): Unit

  /**
   * A snapshot is about to be loaded into the working directory. `doubts` is how often in a row a load of the store, or the task
   * after it, has failed. From 1 on, the content of the host's files is checked before they are used; from 2 on, none of them is used.
   */
  def loading(version: Long, doubts: Int): Unit

  /** Several loads in a row have failed: the host's changelogs and archives of the store may be damaged. */
  def loadsFailed(): Unit

  /** The load that `opening` began has ended, well or badly. */
  def loadEnded(): Unit

  /** The store is at `version` after `milliseconds`, whether or not files had to be read. */
  def loaded(version: Long, milliseconds: Long): Unit

  /** The store was opened from the snapshot of `version`, which has these SST and log files. */
  def snapshotLoaded(version: Long, id: Option[String], files: Set[String]): Unit

  /**
   * A snapshot of `version` was uploaded, with these SST and log files and their lengths. Spark retains `retained` versions.
   * Called by any thread.
   */
  def snapshotUploaded(version: Long, id: Option[String], files: Map[String, Long], retained: Int): Unit

  /** A commit or an upload has written all its files, or has failed. The caller has not returned to Spark yet. Called by the thread that did it. */
  def filesWritten(): Unit

  /** A provider has taken this copy over. The provider has not asked for a version yet. */
  def takenOver(): Unit

  /** A version was committed, and its size is known; the store's SST files have `bytes`, as RocksDB counts them at each commit. */
  def sizeMeasured(bytes: Long): Unit

  /**
   * A version was committed on top of the one with the id `base`. `keys` is -1 where they are not counted. `bytes` is the size of the
   * store's SST files, -1 where it is not known.
   */
  def versionCommitted(version: Long, id: Option[String], base: Option[String], keys: Long, bytes: Long): Unit

  /** The numbers of keys in the version that was committed under this id. */
  def keysCounted(version: Long, id: String, keys: KeyCounts): Unit
}
