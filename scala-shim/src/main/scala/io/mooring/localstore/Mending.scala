package io.mooring.localstore

import java.io.FileNotFoundException
import java.nio.file.Files
import java.util.UUID

import scala.util.Using

import io.mooring.common.Log
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.execution.streaming.state.shims.StateFiles

/**
 * Gives back to the checkpoint what it has lost of a snapshot that this host has whole: files that are missing there, or
 * have another length. What is given back is proved by its checksum first.
 */
private final class Mending(storeDir: Path, shelf: HostStoreFiles, checkpoint: FileSystem) {

  /** Looks at each file of the snapshot once; names without a place in the checkpoint. */
  def look(names: Set[String]): Unit = {
    val lengths = shelf.kept
    for (name <- names.toSeq.sorted; length <- lengths.get(name)) {
      val file = StateFiles.place(storeDir, name)
      if (!lengthOf(file).contains(length)) giveBack(name, file)
    }
  }

  private def lengthOf(file: Path): Option[Long] =
    try Some(checkpoint.getFileStatus(file).getLen)
    catch { case _: FileNotFoundException => None }

  private def giveBack(name: String, file: Path): Unit = for (local <- shelf.sound(name, readIt = true)) {
    val whole = new Path(file.getParent, s".mending-${UUID.randomUUID()}")
    try {
      Using.resource(checkpoint.create(whole, false))(out => Files.copy(local, out))
      checkpoint.delete(file, false)
      if (checkpoint.rename(whole, file)) Log.warn(s"$file was missing or cut short in the checkpoint: it is mended by this host's copy")
    } finally checkpoint.delete(whole, false)
  }
}
