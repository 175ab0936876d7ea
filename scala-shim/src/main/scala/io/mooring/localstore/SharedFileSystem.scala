package io.mooring.localstore

import java.io.File

import org.apache.hadoop.fs.{FileSystem, FilterFileSystem, FSDataInputStream, Path}

/**
 * Stands before the checkpoint's file system for the SST and log files of one state store: what is uploaded is kept
 * on the host as well, and what the host has is not downloaded.
 *
 * @param doubts how often in a row the store failed after it was loaded: from 1 on a local copy must be
 *               proved, from 2 on it is dropped, as it may have been kept damaged
 */
final class SharedFileSystem(stock: FileSystem, shelf: HostStoreFiles, reads: StoreReads, doubts: () => Int)
  extends FilterFileSystem(stock) {

  override def copyFromLocalFile(source: Path, target: Path): Unit = {
    super.copyFromLocalFile(source, target)
    SharedFileSystem.note(source, target)
    if (HostStore.isUniqueName(target.getName))
      KeepingTime.ofFile(shelf.keep(target.getName, new File(source.toUri.getPath).toPath))
  }

  override def copyToLocalFile(source: Path, target: Path): Unit = {
    val local = new File(target.toUri.getPath).toPath
    if (doubts() > 1) shelf.forget(source.getName)
    val adopted =
      if (HostStore.isUniqueName(source.getName)) shelf.adopt(source.getName, local, readIt = doubts() > 0) else None
    adopted match {
      case Some(bytes) => reads.kept(bytes, isNew = shelf.cameAhead(source.getName))
      case None =>
        super.copyToLocalFile(source, target)
        reads.remote(java.nio.file.Files.size(local))
        if (HostStore.isUniqueName(source.getName)) shelf.replace(source.getName, local)
    }
  }

  /** Only the snapshot archives of checkpoint format v1 are opened this way. */
  override def open(file: Path, bufferSize: Int): FSDataInputStream = reads.counted(file.getName, super.open(file, bufferSize))
}

private object SharedFileSystem {

  /** Of an SST or log file, which lies one directory below its store's. */
  def note(source: Path, target: Path): Unit = for (writes <- StoreWrites.of(target.getParent.getParent)) {
    val local = new File(source.toUri.getPath).toPath
    writes.add(target.getName, WrittenFile(java.nio.file.Files.size(local), HostStore.checksum(local)))
  }
}

/** Counts what comes from the checkpoint where there is no host store. */
final class CountingFileSystem(stock: FileSystem, reads: StoreReads) extends FilterFileSystem(stock) {
  override def copyFromLocalFile(source: Path, target: Path): Unit = {
    super.copyFromLocalFile(source, target)
    SharedFileSystem.note(source, target)
  }

  override def copyToLocalFile(source: Path, target: Path): Unit = {
    super.copyToLocalFile(source, target)
    reads.remote(java.nio.file.Files.size(new File(target.toUri.getPath).toPath))
  }

  override def open(file: Path, bufferSize: Int): FSDataInputStream = reads.counted(file.getName, super.open(file, bufferSize))
}
