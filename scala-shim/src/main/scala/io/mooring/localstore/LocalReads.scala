package io.mooring.localstore

import java.nio.file.Files

import scala.util.control.NonFatal

import io.mooring.common.Log
import org.apache.hadoop.fs.{FileSystem, FSDataInputStream, Path}

/** Opens files of one state store that the host keeps. Called by the threads that read a checkpoint. */
private[mooring] object LocalReads {

  /**
   * Opens the host's file, after its checksum was compared: these files are small, or are read to their end anyway. None where the host
   * does not keep the file, or it can not be opened.
   *
   * @param localFiles the host's own file system, without checksum files beside the files
   */
  def open(hostFiles: HostStoreFiles, name: String, reads: StoreReads, localFiles: FileSystem): Option[FSDataInputStream] =
    hostFiles.checked(name, readIt = true).flatMap { local =>
      try {
        val stream = localFiles.open(new Path(local.toUri))
        val isNew = hostFiles.cameAhead(name)
        if (name.endsWith(".changelog")) reads.keptChangelog(isNew)
        else if (name.endsWith(".zip")) reads.kept(Files.size(local), isNew)
        Some(stream)
      } catch {
        case NonFatal(e) =>
          Log.failed("local-store-open", e)(s"a file of the local store could not be opened ($e): it is fetched from the checkpoint")
          None
      }
    }
}
