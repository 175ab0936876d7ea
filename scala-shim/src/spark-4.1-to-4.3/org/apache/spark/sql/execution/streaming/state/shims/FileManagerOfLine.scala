package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem

import org.apache.spark.sql.execution.streaming.state._

/** The arguments of `RocksDBFileManager`'s constructor in Spark 4.1 to 4.3. `directory` is the store's directory in the checkpoint. */
private[shims] final case class FileManagerArguments(
    directory: String,
    localDirectory: File,
    hadoopConf: Configuration,
    codec: String,
    loggingId: String,
    stores: StateStoreConf,
    hasChecksums: Boolean,
    checksumThreads: Option[Int])

/** How a `RocksDBFileManager` is made in Spark 4.1 to 4.3, and how it uploads and removes versions. */
private[shims] abstract class FileManagerOfLine(observer: StoreObserver, of: FileManagerArguments)
  extends RocksDBFileManager(of.directory, of.localDirectory, of.hadoopConf, of.codec, of.loggingId, of.stores,
    of.hasChecksums, of.checksumThreads) {

  override protected def getFileSystem(storeDir: String, conf: Configuration): FileSystem =
    observer.fileSystem(super.getFileSystem(storeDir, conf))

  override def saveCheckpointToDfs(
      checkpointDir: File,
      version: Long,
      numKeys: Long,
      numInternalKeys: Long,
      fileMapping: scala.collection.Map[String, RocksDBSnapshotFile],
      columnFamilyMapping: Option[scala.collection.Map[String, ColumnFamilyInfo]],
      maxColumnFamilyId: Option[Short],
      checkpointUniqueId: Option[String],
      verifyNonEmptyFilesInZip: Boolean): Unit = {
    super.saveCheckpointToDfs(checkpointDir, version, numKeys, numInternalKeys, fileMapping, columnFamilyMapping,
      maxColumnFamilyId, checkpointUniqueId, verifyNonEmptyFilesInZip)
    val files = fileMapping.values.map(f => f.immutableFile.dfsFileName -> f.immutableFile.sizeBytes).toMap
    observer.snapshotUploaded(version, checkpointUniqueId, files, of.stores.minVersionsToRetain)
  }

  /**
   * Spark 4.0 to 4.2 call this after an upload, if there was one. The host keeps the uploaded files first: removing old versions may take
   * long, and a file that is kept after its removal would stay.
   */
  override def deleteOldVersions(retained: Int, mostDeleted: Int, leastDeleted: Long): Unit = {
    observer.filesWritten()
    super.deleteOldVersions(retained, mostDeleted, leastDeleted)
  }
}
