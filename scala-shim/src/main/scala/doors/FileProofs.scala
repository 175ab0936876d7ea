package org.apache.spark.sql.execution.streaming.state.mooring

import java.io.{FileInputStream, FileNotFoundException, IOException}
import java.nio.file.{Files, Path => LocalPath}
import java.util.zip.{CRC32C, ZipInputStream}

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.rocksdb.{Options, RocksDB, RocksDBException, SstFileReader}

import org.apache.spark.SparkConf
import org.apache.spark.io.CompressionCodec
import org.apache.spark.sql.execution.streaming.checkpointing.{CheckpointFileManager, Checksum}
import org.apache.spark.sql.execution.streaming.state.{StateStoreChangelogReader, StateStoreChangelogReaderFactory}

/** Whether files of a RocksDB state store are what was written; for a process without a Spark of its own. */
object FileProofs {
  private val conf = new Configuration

  /** Throws when the file is damaged, by all that it and the checksum beside it tell. */
  def prove(file: LocalPath, codec: String): Unit = {
    val name = file.getFileName.toString
    val proof = file.resolveSibling(s"$name.crc")
    if (Files.size(file) == 0) throw new IOException("it is empty")
    // Of an archive without an id two may have been written at once: then the checksum may be the other's, which Spark knows.
    val mayBeOfAnother = name.matches("[0-9]+\\.zip")
    if (Files.exists(proof) && !mayBeOfAnother) compare(file, Checksum.fromJson(Files.readString(proof)))
    if (name.endsWith(".sst")) proveBlocks(file)
    else if (name.endsWith(".zip")) readThrough(file)
    else if (name.endsWith(".changelog")) withChangelog(file, codec)(_.foreach(_ => ()))
  }

  /** The versions that a changelog of format v2 builds on, with their unique ids. */
  def lineage(file: LocalPath, codec: String): Map[Long, String] =
    withChangelog(file, codec)(_.lineage.map(one => one.version -> one.checkpointUniqueId).toMap)

  private def compare(file: LocalPath, written: Checksum): Unit = {
    val size = Files.size(file)
    if (size != written.mainFileSize) throw new IOException(s"it has $size bytes instead of ${written.mainFileSize}")
    val crc = new CRC32C
    val buffer = new Array[Byte](1 << 16)
    Using.resource(new FileInputStream(file.toFile)) { in =>
      Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(crc.update(buffer, 0, _))
    }
    if (written.algorithm == "CRC32C" && crc.getValue.toInt != written.value)
      throw new IOException("its checksum is not that which was written beside it")
  }

  private def proveBlocks(sst: LocalPath): Unit = {
    RocksDB.loadLibrary()
    try Using.Manager { use =>
      val reader = use(new SstFileReader(use(new Options)))
      reader.open(sst.toString)
      reader.verifyChecksum()
    }.get
    catch { case e: RocksDBException => throw new IOException(e.getMessage, e) }
  }

  /** To the end, where the checksum of each entry is compared. */
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
    val reader = new StateStoreChangelogReaderFactory(files, path, CompressionCodec.createCodec(new SparkConf(false), codec))
      .constructChangelogReader()
    try body(reader)
    finally reader.closeIfNeeded()
  }
}
