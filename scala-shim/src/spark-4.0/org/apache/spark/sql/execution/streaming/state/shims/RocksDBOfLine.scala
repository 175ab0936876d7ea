package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.Utils

/** Further arguments of `RocksDB`'s constructor: Spark 4.0 has none, as its stores report nothing to the coordinator. */
private[shims] final case class ArgumentsOfLine()

private[shims] object ArgumentsOfLine {

  /** The arguments for an open copy. */
  def ofCopy(@unused reports: ReportsAfterTakeOver): ArgumentsOfLine = ArgumentsOfLine()
}

/**
 * How an instance of `RocksDB` is made in Spark 4.0. There an instance makes its file manager itself, in a private field: it is
 * replaced here, before anything uses it. And an instance is owned by the thread that has loaded a version, until that thread
 * commits or rolls back.
 */
private[shims] abstract class RocksDBOfLine(observer: StoreObserver, of: RocksDBArguments)
  extends RocksDB(of.directory, of.conf, of.localDirectory, of.hadoopConf, of.loggingId, of.hasColumnFamilies, of.hasUniqueIds,
    of.partition) {

  SparkInternals.rocksDBFileManager.member.set(this, new FileManagerShim(observer, FileManagerArguments(of.directory,
    Utils.createDirectory(of.localDirectory.getAbsolutePath, "fileManager"), of.hadoopConf, of.conf.compressionCodec, of.loggingId,
    of.conf.minVersionsToRetain)))

  /** Runs `load`, which loads the snapshot of a version and the changelogs up to another version. */
  protected def loadingFromSnapshot(load: => RocksDB): RocksDB

  override def loadFromSnapshot(snapshotVersion: Long, endVersion: Long): RocksDB =
    loadingFromSnapshot(super.loadFromSnapshot(snapshotVersion, endVersion))

  /** The calling thread becomes the owner. It waits for another owner as `load` does, and fails as `load` does. */
  protected def becomeOwner(): Unit = SparkInternals.acquireRocksDB(this)

  /** The calling thread is the owner, and ends that: another thread will use this instance. */
  def passToAnotherThread(): Unit = SparkInternals.releaseRocksDB(this)

  /** Called before changelogs are replayed. Spark 4.0 has nothing to do then. */
  def beforeReplay(): Unit = ()
}
