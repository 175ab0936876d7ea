package io.mooring.localstore

import java.io.File

import io.mooring.common.FailOpen
import org.apache.hadoop.fs.{FileSystem, FilterFileSystem, FSDataInputStream, Path}

/**
 * The checkpoint's file system for the SST files of one state store and for RocksDB's own log files (its write-ahead log), with the host's
 * store in front: an uploaded file is kept on the host too, and a file that the host keeps is not downloaded. Called by the thread that
 * uses the store, and by Spark's maintenance.
 *
 * @param doubts  how often in a row a load of the store, or the task after it, has failed: from 1 on a kept file is read and its content
 *                is checked before it is used; from 2 on it is removed, as it may have been damaged when it was kept
 * @param isNoted whether uploaded files are noted, if a catalogue is kept: where the store's snapshots get rows in it
 */
final class SharedFileSystem(
    stock: FileSystem, hostFiles: HostStoreFiles, reads: StoreReads, doubts: () => Int, isNoted: Boolean)
  extends FilterFileSystem(stock) {

  override def copyFromLocalFile(source: Path, target: Path): Unit = {
    super.copyFromLocalFile(source, target)
    if (isNoted) SharedFileSystem.note(source, target)
    if (HostStore.isUniqueName(target.getName))
      KeepingTime.ofFile(hostFiles.keep(target.getName, new File(source.toUri.getPath).toPath))
  }

  override def copyToLocalFile(source: Path, target: Path): Unit = {
    val local = new File(target.toUri.getPath).toPath
    if (doubts() > 1) hostFiles.forget(source.getName)
    val adopted =
      if (HostStore.isUniqueName(source.getName)) hostFiles.adopt(source.getName, local, readIt = doubts() > 0) else None
    adopted match {
      case Some(bytes) => reads.kept(bytes, isNew = hostFiles.cameAhead(source.getName))
      case None =>
        super.copyToLocalFile(source, target)
        reads.remote(java.nio.file.Files.size(local))
        if (HostStore.isUniqueName(source.getName)) hostFiles.replace(source.getName, local)
    }
  }

  /** Only snapshot archives are opened this way: those of checkpoint format v1, and on Spark 4.0 and 4.1 those of format v2 too. */
  override def open(file: Path, bufferSize: Int): FSDataInputStream = {
    val kept = if (HostStore.isUniqueName(file.getName)) LocalReads.open(hostFiles, file.getName, reads, localFiles) else None
    ArchiveStamp.asThisJvmReads(file.getName, kept.getOrElse(reads.counted(file.getName, super.open(file, bufferSize))))
  }

  private lazy val localFiles = FileSystem.getLocal(stock.getConf).getRaw
}

private object SharedFileSystem {

  /**
   * Notes an uploaded SST file, or log file of RocksDB, for the catalogue: reads the file for its checksum. The file is one directory below
   * the store's directory. Where that fails, the row of its snapshot has no checksum of the file.
   */
  def note(source: Path, target: Path): Unit = FailOpen.otherwise("checksum of a file for the catalogue", ()) {
    for (writes <- StoreWrites.of(target.getParent.getParent)) {
      val local = new File(source.toUri.getPath).toPath
      writes.add(target.getName, WrittenFile(java.nio.file.Files.size(local), HostStore.checksum(local)))
    }
  }
}

/** The checkpoint's file system where the host's store can not be used: counts what is read. `isNoted` as in `SharedFileSystem`. */
final class CountingFileSystem(stock: FileSystem, reads: StoreReads, isNoted: Boolean) extends FilterFileSystem(stock) {
  override def copyFromLocalFile(source: Path, target: Path): Unit = {
    super.copyFromLocalFile(source, target)
    if (isNoted) SharedFileSystem.note(source, target)
  }

  override def copyToLocalFile(source: Path, target: Path): Unit = {
    super.copyToLocalFile(source, target)
    reads.remote(java.nio.file.Files.size(new File(target.toUri.getPath).toPath))
  }

  override def open(file: Path, bufferSize: Int): FSDataInputStream =
    ArchiveStamp.asThisJvmReads(file.getName, reads.counted(file.getName, super.open(file, bufferSize)))
}
