package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state._

/** Further arguments of `RocksDB`'s constructor in Spark 4.1 to 4.3: where it reports to, and a name for the reports. */
private[shims] final case class ArgumentsOfLine(reports: Option[RocksDBEventForwarder], uniqueId: Option[String])

private[shims] object ArgumentsOfLine {

  /** The arguments for an open copy. It reports to Spark's coordinator what `reports` passes on. */
  def ofCopy(reports: ReportsAfterTakeOver): ArgumentsOfLine = ArgumentsOfLine(Some(reports), None)
}

/** How an instance of `RocksDB` is made in Spark 4.1 to 4.3, and how it makes its file manager. */
private[shims] abstract class RocksDBOfLine(observer: StoreObserver, of: RocksDBArguments)
  extends RocksDB(of.directory, of.conf, of.localDirectory, of.hadoopConf, of.loggingId, of.hasColumnFamilies,
    of.hasUniqueIds, of.partition, of.ofLine.reports, of.ofLine.uniqueId) {

  /** Runs `load`, which loads the snapshot of a version and the changelogs up to another version. */
  protected def loadingFromSnapshot(load: => RocksDB): RocksDB

  override protected def createFileManager(
      dfsRootDir: String,
      localTempDir: File,
      hadoopConf: Configuration,
      codecName: String,
      loggingId: String,
      storeConf: StateStoreConf): RocksDBFileManager =
    new FileManagerShim(observer, FileManagerArguments(dfsRootDir, localTempDir, hadoopConf, codecName, loggingId, storeConf,
      of.conf.fileChecksumEnabled, fileChecksumThreadPoolSize))

  override def loadFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]): RocksDB = loadingFromSnapshot {
    super.loadFromSnapshot(snapshotVersion, endVersion, snapshotVersionStateStoreCkptId, endVersionStateStoreCkptId)
  }

  /** An instance has no owner in these lines: its provider lets one task at a time load and roll back. */
  protected def becomeOwner(): Unit = ()
  def passToAnotherThread(): Unit = ()

  /** Called before changelogs are replayed: the limit of memory may have changed. */
  def beforeReplay(): Unit = updateMemoryUsageIfNeeded()
}
