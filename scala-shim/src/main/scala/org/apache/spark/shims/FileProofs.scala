package org.apache.spark.shims

import java.io.{FileInputStream, FileNotFoundException, IOException}
import java.nio.file.{Files, Path => LocalPath}
import java.util.zip.ZipInputStream

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.rocksdb.{Options, RocksDB, RocksDBException, SstFileReader}

import org.apache.spark.{SparkConf, SparkIllegalArgumentException, SparkThrowable}
import org.apache.spark.io.CompressionCodec
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.{StateStoreChangelogReader, StateStoreChangelogReaderFactory}

/** This Spark can not read the file. The file may be good. */
final class NotUnderstood(message: String, cause: Throwable) extends Exception(message, cause)

/**
 * Checks whether files of a RocksDB state store have the content with which they were written. Called by `Proofs`, a process without a Spark application.
 * Depends on Spark's readers of changelogs and checksum files, and on the texts of RocksDB's errors.
 */
object FileProofs {
  private val conf = new Configuration

  /** Parts of RocksDB's messages about a file of a newer format. */
  private val FromNewerRocksDB = Seq("newer version of RocksDB", "unsupported format_version")

  /** Throws when the file, or the checksum beside it, shows that the file is damaged; `NotUnderstood` when neither can tell. */
  def prove(file: LocalPath, codec: String): Unit = {
    val name = file.getFileName.toString
    val proof = file.resolveSibling(s"$name.crc")
    if (Files.size(file) == 0) throw new IOException("it is empty")
    // Two tasks may have written an archive without an id at the same time. Then the checksum may belong to the
    // other archive.
    val mayBeOfAnother = name.matches("[0-9]+\\.zip")
    val isAsWritten = Files.exists(proof) && !mayBeOfAnother && FileChecksums.compare(file, proof)
    try {
      if (name.endsWith(".sst")) proveBlocks(file)
      else if (name.endsWith(".zip")) readThrough(file)
      else if (name.endsWith(".changelog")) withChangelog(file, codec)(_.foreach(_ => ()))
    } catch {
      case e: Throwable if isAsWritten && !e.isInstanceOf[NotUnderstood] =>
        throw new NotUnderstood(s"it is what was written, by its checksum, and can not be read here: ${e.getMessage}", e)
    }
  }

  /** The versions that a changelog of format v2 builds on, with their unique ids. */
  def lineage(file: LocalPath, codec: String): Map[Long, String] =
    withChangelog(file, codec)(_.lineage.map(one => one.version -> one.checkpointUniqueId).toMap)

  private def proveBlocks(sst: LocalPath): Unit = {
    RocksDB.loadLibrary()
    try Using.Manager { use =>
      val reader = use(new SstFileReader(use(new Options)))
      reader.open(sst.toString)
      reader.verifyChecksum()
    }.get
    catch {
      case e: RocksDBException if FromNewerRocksDB.exists(e.getMessage.contains(_)) => throw new NotUnderstood(e.getMessage, e)
      case e: RocksDBException => throw new IOException(e.getMessage, e)
    }
  }

  /** Reads the archive to its end: `ZipInputStream` compares the checksum of each entry. */
  private def readThrough(archive: LocalPath): Unit = Using.resource(new ZipInputStream(new FileInputStream(archive.toFile))) { zip =>
    val buffer = new Array[Byte](1 << 16)
    val names = Iterator.continually(zip.getNextEntry).takeWhile(_ != null).map { entry =>
      Iterator.continually(zip.read(buffer)).takeWhile(_ >= 0).foreach(_ => ())
      entry.getName
    }.toSet
    if (!names("metadata")) throw new FileNotFoundException("there is no metadata in it")
  }

  private def withChangelog[T](file: LocalPath, codec: String)(body: StateStoreChangelogReader => T): T = {
    val path = new Path(file.toUri)
    val files = CheckpointFileManager.create(path.getParent, conf)
    val compression =
      try CompressionCodec.createCodec(new SparkConf(false), codec)
      catch { case e: SparkIllegalArgumentException => throw new NotUnderstood(s"its compression, $codec, is not known here", e) }
    val reader =
      try new StateStoreChangelogReaderFactory(files, path, compression).constructChangelogReader()
      catch { case e: SparkThrowable if isOfUnknownVersion(e) => throw new NotUnderstood(e.getMessage, e.asInstanceOf[Throwable]) }
    try body(reader)
    finally reader.closeIfNeeded()
  }

  private def isOfUnknownVersion(e: SparkThrowable): Boolean = e.getCondition == "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION"
}
