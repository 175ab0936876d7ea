package org.apache.spark.shims

import java.io.{FileInputStream, IOException}
import java.nio.file.{Files, Path}
import java.util.zip.CRC32C

import scala.util.Using

import org.apache.spark.sql.execution.streaming.checkpointing.Checksum

/** The checksums that Spark 4.1 to 4.3 write beside the files of a checkpoint. */
private[shims] object FileChecksums {

  /** Whether the checksum in `proof` could be compared with that of `file`. Throws when length or checksum differ. */
  def compare(file: Path, proof: Path): Boolean = {
    val written = Checksum.fromJson(Files.readString(proof))
    val size = Files.size(file)
    if (size != written.mainFileSize) throw new IOException(s"it has $size bytes instead of ${written.mainFileSize}")
    val crc = new CRC32C
    val buffer = new Array[Byte](1 << 16)
    Using.resource(new FileInputStream(file.toFile)) { in =>
      Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(crc.update(buffer, 0, _))
    }
    if (written.algorithm == "CRC32C" && crc.getValue.toInt != written.value)
      throw new IOException("its checksum is not that which was written beside it")
    written.algorithm == "CRC32C"
  }
}
