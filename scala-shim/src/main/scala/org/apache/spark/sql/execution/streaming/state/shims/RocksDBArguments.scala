package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.execution.streaming.state.RocksDBConf

/**
 * The arguments of `RocksDB`'s constructor. `directory` is the store's directory in the checkpoint. `ofLine` has the arguments that only
 * some lines of Spark have.
 */
private[shims] final case class RocksDBArguments(
    directory: String,
    conf: RocksDBConf,
    localDirectory: File,
    hadoopConf: Configuration,
    loggingId: String,
    hasColumnFamilies: Boolean,
    hasUniqueIds: Boolean,
    partition: Int,
    ofLine: ArgumentsOfLine)

private[shims] object RocksDBArguments {

  /** The arguments for an open copy. It reports to Spark's coordinator what `reports` passes on. */
  def ofCopy(
      directory: String, conf: RocksDBConf, localDirectory: File, hadoopConf: Configuration, hasColumnFamilies: Boolean,
      partition: Int, reports: ReportsAfterTakeOver): RocksDBArguments =
    RocksDBArguments(directory, conf, localDirectory, hadoopConf, s"standby of $directory", hasColumnFamilies,
      hasUniqueIds = true, partition, ArgumentsOfLine.ofCopy(reports))
}
