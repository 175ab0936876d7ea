package org.apache.spark.sql.execution.streaming.state.shims

import java.io.{FileNotFoundException, InputStream}
import java.nio.file.{Files, StandardCopyOption}
import java.util.zip.ZipInputStream

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkEnv
import org.apache.spark.io.CompressionCodec
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.{RocksDBCheckpointMetadata, RocksDBImmutableFile, StateStoreChangelogReaderFactory}

/**
 * Reads which other files of a RocksDB state store its archives and changelogs name. Called by any thread. Depends on the
 * formats that Spark 4.0 to 4.3 writes: the archive's `metadata` entry, and the changelog's header.
 */
object StateFiles {
  private val Metadata = "metadata"

  /**
   * The files that a snapshot needs besides its archive: path below the store's directory, and length in bytes. `archive` is as this JVM
   * reads it.
   */
  def neededBy(archive: InputStream): Seq[(String, Long)] = {
    val metadata = Files.createTempFile("mooring-", s"-$Metadata")
    try {
      Using.resource(new ZipInputStream(archive)) { zip =>
        Iterator.continually(zip.getNextEntry).takeWhile(_ != null).find(_.getName == Metadata)
          .getOrElse(throw new FileNotFoundException("the snapshot archive has no metadata in it"))
        Files.copy(zip, metadata, StandardCopyOption.REPLACE_EXISTING)
      }
      RocksDBCheckpointMetadata.readFromFile(metadata.toFile).immutableFiles.map { file =>
        (s"${directoryOf(file.dfsFileName)}/${file.dfsFileName}", file.sizeBytes)
      }
    } finally Files.deleteIfExists(metadata)
  }

  private def directoryOf(immutable: String): String =
    if (RocksDBImmutableFile.isSstFile(immutable)) RocksDBImmutableFile.SST_FILES_DFS_SUBDIR
    else RocksDBImmutableFile.LOG_FILES_DFS_SUBDIR

  /** Where the checkpoint keeps an archive, an SST file or a log file of RocksDB. */
  def place(storeDir: Path, name: String): Path =
    if (name.endsWith(".zip")) new Path(storeDir, name) else new Path(storeDir, s"${directoryOf(name)}/$name")

  /** The versions that a changelog of checkpoint format v2 builds on. */
  def lineage(files: CheckpointFileManager, changelog: Path, codec: String): ChangelogLineage = {
    val reader = new StateStoreChangelogReaderFactory(files, changelog,
      CompressionCodec.createCodec(SparkEnv.get.conf, codec)).constructChangelogReader()
    try ChangelogLineage(reader.lineage.map(item => (item.version, item.checkpointUniqueId)).sorted.toSeq,
      hasColumnFamilies = reader.version % 2 == 0) // changelog formats 2 and 4 have them, 1 and 3 do not
    finally reader.closeIfNeeded()
  }
}

/** Versions with their unique ids, oldest first: the last snapshot, if there is any, and all versions after it. */
final case class ChangelogLineage(versions: Seq[(Long, String)], hasColumnFamilies: Boolean)
