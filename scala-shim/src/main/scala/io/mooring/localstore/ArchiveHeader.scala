package io.mooring.localstore

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.{ZipEntry, ZipInputStream, ZipOutputStream}

import scala.util.Using

import io.mooring.common.InMemoryFile
import org.apache.hadoop.fs.FSDataInputStream
import org.apache.spark.sql.execution.streaming.state.shims.ArchiveVersion

/**
 * The first line of the entry `metadata` in a snapshot archive, such as `v1`. Spark refuses an archive whose line is not the one that it
 * writes itself. Spark 4.0 writes the format of the first query in the JVM, later lines always `v1`; the rest of the entry is the same.
 * So an archive is read with the line that this JVM expects, and written with the line that stock Spark writes for its format.
 */
object ArchiveHeader {
  private val Metadata = "metadata"

  /** The archive of this name as Spark in this JVM reads it. Closes `opened`. */
  def asThisJvmReads(name: String, opened: FSDataInputStream): FSDataInputStream = {
    val archive = Using.resource(opened)(_.readAllBytes())
    new FSDataInputStream(new InMemoryFile(withVersion(archive, versionHere(name))))
  }

  /** Whether archives of this name are written with another line than Spark in this JVM gives them. */
  def isToChange(name: String): Boolean = name.endsWith(".zip") && versionHere(name) != versionOf(name)

  /** The archive as stock Spark writes it for the format that its name tells. */
  def asStockWrites(name: String, archive: Array[Byte]): Array[Byte] = withVersion(archive, versionOf(name))

  private def versionHere(name: String) = ArchiveVersion.ofThisJvm(hasUniqueIds = HostStore.isUniqueName(name))
  private def versionOf(name: String) = ArchiveVersion.of(hasUniqueIds = HostStore.isUniqueName(name))

  /** The archive with this version in the line; the same array when it has this version, and when it can not be read. */
  private[localstore] def withVersion(archive: Array[Byte], version: Int): Array[Byte] =
    try {
      if (entries(archive).exists { case (name, content) => name == Metadata && firstLine(content) != s"v$version" })
        packed(entries(archive).map {
          case (Metadata, content) => (Metadata, s"v$version".getBytes(UTF_8) ++ content.drop(firstLine(content).length))
          case other => other
        })
      else archive
    } catch { case _: IOException => archive } // damaged: Spark reads it, and reports the damage

  private def entries(archive: Array[Byte]): Iterator[(String, Array[Byte])] = {
    val zip = new ZipInputStream(new ByteArrayInputStream(archive))
    Iterator.continually(zip.getNextEntry).takeWhile(_ != null).map(entry => (entry.getName, zip.readAllBytes()))
  }

  private def firstLine(content: Array[Byte]) = new String(content.takeWhile(_ != '\n'), UTF_8)

  private def packed(entries: Iterator[(String, Array[Byte])]): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    Using.resource(new ZipOutputStream(bytes)) { zip =>
      for ((name, content) <- entries) {
        zip.putNextEntry(new ZipEntry(name))
        zip.write(content)
      }
    }
    bytes.toByteArray
  }
}
