package io.mooring.localstore

import java.io.FileNotFoundException
import java.nio.file.Files
import java.util.UUID

import scala.util.Using

import io.mooring.common.Log
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.execution.streaming.state.shims.StateFiles

/**
 * Writes files of a snapshot back to the checkpoint that are missing there, or have another length, if this host keeps them. A file is
 * proved by its checksum before. Runs in the background thread of `HostStore`, after a store was opened.
 */
private final class Mending(storeDir: Path, hostFiles: HostStoreFiles, checkpoint: FileSystem) {

  /** Checks each of these files of the snapshot once. */
  def run(names: Set[String]): Unit = {
    val lengths = hostFiles.kept
    for (name <- names.toSeq.sorted; length <- lengths.get(name)) {
      val file = StateFiles.place(storeDir, name)
      if (!lengthOf(file).contains(length)) writeBack(name, file)
    }
  }

  private def lengthOf(file: Path): Option[Long] =
    try Some(checkpoint.getFileStatus(file).getLen)
    catch { case _: FileNotFoundException => None }

  private def writeBack(name: String, file: Path): Unit = for (local <- hostFiles.checked(name, readIt = true)) {
    val whole = new Path(file.getParent, s".mending-${UUID.randomUUID()}")
    try {
      Using.resource(checkpoint.create(whole, false))(out => Files.copy(local, out))
      checkpoint.delete(file, false)
      if (checkpoint.rename(whole, file)) Log.warn(s"$file was missing or cut short in the checkpoint: it is mended by this host's copy")
    } finally checkpoint.delete(whole, false)
  }
}
