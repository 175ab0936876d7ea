package io.mooring.localstore

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.{ZipEntry, ZipInputStream, ZipOutputStream}

import scala.util.Using

import io.mooring.common.InMemoryFile
import org.apache.hadoop.fs.FSDataInputStream
import org.apache.spark.sql.execution.streaming.state.shims.ArchiveVersion

/**
 * The stamp of a snapshot archive: the first row of its entry `metadata`, `v1` or `v2`. The rest of the entry is the same for both stamps.
 * Spark refuses an archive whose stamp is not the one that it writes itself. Spark 4.0 writes one stamp in a JVM: the format of the first
 * query there. From Spark 4.1 on the stamp is always `v1`.
 *
 * So stores of Mooring's provider give Spark each archive with the stamp that this JVM expects. On Spark 4.0 they write the stamp that
 * stock Spark writes for the format.
 */
object ArchiveStamp {
  private val Metadata = "metadata"
  private val Known = Set("v1", "v2")
  private val ofOurStore = new ThreadLocal[Boolean]

  /** The archive of this name as Spark in this JVM reads it. Closes `opened`. */
  def asThisJvmReads(name: String, opened: FSDataInputStream): FSDataInputStream = {
    val archive = Using.resource(opened)(_.readAllBytes())
    new FSDataInputStream(new InMemoryFile(withStamp(archive, s"v${versionHere(name)}")))
  }

  /** Runs `write`, in which this thread writes an archive of a store of Mooring's provider. Called on Spark 4.0. */
  def whileWriting(write: => Unit): Unit = {
    ofOurStore.set(true)
    try write
    finally ofOurStore.remove()
  }

  /** Whether this thread writes an archive of this name, and Spark gives it another stamp than stock Spark would. */
  def isToChange(name: String): Boolean = name.endsWith(".zip") && ofOurStore.get && versionHere(name) != versionOf(name)

  /** The archive as stock Spark writes it for the format that its name tells. */
  def asStockWrites(name: String, archive: Array[Byte]): Array[Byte] = withStamp(archive, s"v${versionOf(name)}")

  private def versionHere(name: String) = ArchiveVersion.takeForThisJvm(hasUniqueIds = HostStore.isUniqueName(name))
  private def versionOf(name: String) = ArchiveVersion.of(hasUniqueIds = HostStore.isUniqueName(name))

  /** The archive with this stamp. The same array where it has this stamp, has one that is not known, or can not be read. */
  private[localstore] def withStamp(archive: Array[Byte], stamp: String): Array[Byte] =
    try {
      val found = eachEntry(archive)(_.collectFirst { case (Metadata, content) => firstRow(content()) }).getOrElse(stamp)
      if (found == stamp || !Known(found)) archive else eachEntry(archive)(packed(_, stamp))
    } catch { case _: IOException => archive } // damaged: Spark reads it, and reports the damage

  private def eachEntry[T](archive: Array[Byte])(use: Iterator[(String, () => Array[Byte])] => T): T =
    Using.resource(new ZipInputStream(new ByteArrayInputStream(archive))) { zip =>
      use(Iterator.continually(zip.getNextEntry).takeWhile(_ != null).map(entry => (entry.getName, () => zip.readAllBytes())))
    }

  private def firstRow(metadata: Array[Byte]) = new String(metadata.takeWhile(_ != '\n'), UTF_8)

  private def packed(entries: Iterator[(String, () => Array[Byte])], stamp: String): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    Using.resource(new ZipOutputStream(bytes)) { zip =>
      for ((name, content) <- entries) {
        zip.putNextEntry(new ZipEntry(name))
        if (name == Metadata) zip.write(stamp.getBytes(UTF_8))
        zip.write(if (name == Metadata) content().dropWhile(_ != '\n') else content())
      }
    }
    bytes.toByteArray
  }
}
