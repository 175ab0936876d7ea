package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem

import org.apache.spark.shims.SparkInternals
import org.apache.spark.sql.execution.streaming.state._

/**
 * The arguments of `RocksDBFileManager`'s constructor in Spark 4.0, and the number of versions that stay in the checkpoint.
 * `directory` is the store's directory in the checkpoint.
 */
private[shims] final case class FileManagerArguments(
    directory: String,
    localDirectory: File,
    hadoopConf: Configuration,
    codec: String,
    loggingId: String,
    retained: Int)

/**
 * How a `RocksDBFileManager` is made in Spark 4.0, and how it uploads and removes versions. Its file system is a private field:
 * it is wrapped here, before anything uses it.
 */
private[shims] abstract class FileManagerOfLine(observer: StoreObserver, of: FileManagerArguments)
  extends RocksDBFileManager(of.directory, of.localDirectory, of.hadoopConf, of.codec, of.loggingId) {

  SparkInternals.fileSystemOfStore.member.set(this, observer.fileSystem(SparkInternals.fileSystemOfStore.member.get(this).asInstanceOf[FileSystem]))

  override def saveCheckpointToDfs(
      checkpointDir: File,
      version: Long,
      numKeys: Long,
      numInternalKeys: Long,
      fileMapping: scala.collection.Map[String, RocksDBSnapshotFile],
      columnFamilyMapping: Option[scala.collection.Map[String, ColumnFamilyInfo]],
      maxColumnFamilyId: Option[Short],
      checkpointUniqueId: Option[String]): Unit = {
    observer.writingArchive {
      super.saveCheckpointToDfs(checkpointDir, version, numKeys, numInternalKeys, fileMapping, columnFamilyMapping,
        maxColumnFamilyId, checkpointUniqueId)
    }
    val files = fileMapping.values.map(f => f.immutableFile.dfsFileName -> f.immutableFile.sizeBytes).toMap
    observer.snapshotUploaded(version, checkpointUniqueId, files, of.retained)
  }

  /**
   * Maintenance calls this after an upload, if there was one. The host keeps the uploaded files first: removing old versions may take
   * long, and a file that is kept after its removal would stay.
   */
  override def deleteOldVersions(retained: Int, leastDeleted: Long): Unit = {
    observer.filesWritten()
    super.deleteOldVersions(retained, leastDeleted)
  }
}
