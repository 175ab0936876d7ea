package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import scala.annotation.unused

import org.apache.hadoop.conf.Configuration

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.Utils

/**
 * The arguments of `RocksDB`'s constructor in Spark 4.0, and the number of versions that stay in the checkpoint. `directory` is
 * the store's directory in the checkpoint.
 */
private[shims] final case class RocksDBArguments(
    directory: String,
    conf: RocksDBConf,
    localDirectory: File,
    hadoopConf: Configuration,
    loggingId: String,
    hasColumnFamilies: Boolean,
    hasUniqueIds: Boolean,
    partition: Int)

private[shims] object RocksDBArguments {

  /** The arguments for an open copy. In Spark 4.0 stores report nothing to the coordinator. */
  def ofCopy(
      directory: String, conf: RocksDBConf, localDirectory: File, hadoopConf: Configuration, hasColumnFamilies: Boolean,
      partition: Int, @unused reports: ReportsAfterTakeOver): RocksDBArguments =
    RocksDBArguments(directory, conf, localDirectory, hadoopConf, s"standby of $directory", hasColumnFamilies,
      hasUniqueIds = true, partition)
}

/**
 * How an instance of `RocksDB` is made in Spark 4.0. There an instance makes its file manager itself, in a private field: it is
 * replaced here, before anything uses it. And an instance belongs to the thread that has loaded a version, until that thread
 * commits or rolls back.
 */
private[shims] abstract class RocksDBOfLine(observer: StoreObserver, of: RocksDBArguments)
  extends RocksDB(of.directory, of.conf, of.localDirectory, of.hadoopConf, of.loggingId, of.hasColumnFamilies, of.hasUniqueIds,
    of.partition) {

  SparkInternals.rocksDBFileManager.member.set(this, new FileManagerShim(observer, FileManagerArguments(of.directory,
    Utils.createTempDir(of.localDirectory.getAbsolutePath, "fileManager"), of.hadoopConf, of.conf.compressionCodec, of.loggingId,
    of.conf.minVersionsToRetain)))

  /** Runs `load`, which loads the snapshot of a version and the changelogs up to another version. */
  protected def loadingFromSnapshot(load: => RocksDB): RocksDB

  override def loadFromSnapshot(snapshotVersion: Long, endVersion: Long): RocksDB =
    loadingFromSnapshot(super.loadFromSnapshot(snapshotVersion, endVersion))

  /** The calling thread has loaded this instance, and another thread will use it. */
  def passToAnotherThread(): Unit = SparkInternals.releaseRocksDB(this)

  /** Called before changelogs are replayed. Spark 4.0 has nothing to do then. */
  def beforeReplay(): Unit = ()
}
