package io.mooring.localstore

import java.util.concurrent.atomic.AtomicLong

import io.mooring.common.LastUsed
import org.apache.hadoop.fs.{FSDataInputStream, Path}

/**
 * Counts what is read to open one state store: files and bytes of snapshots (SST files, RocksDB's own log files, archives), and changelog
 * files. Used by the task's thread and by Spark's threads that read checksums.
 */
final class StoreReads {
  private val localFiles, localBytes, remoteFiles, remoteBytes = new AtomicLong
  private val changelogLocal, changelogRemote = new AtomicLong

  def local(bytes: Long): Unit = { localFiles.incrementAndGet(); localBytes.addAndGet(bytes); () }
  def remote(bytes: Long): Unit = { remoteFiles.incrementAndGet(); remoteBytes.addAndGet(bytes); () }

  /** A file of the host was used. It counts as remote if it was fetched just for this opening (`isNew`). */
  def kept(bytes: Long, isNew: Boolean): Unit = if (isNew) remote(bytes) else local(bytes)
  def keptChangelog(isNew: Boolean): Unit = { (if (isNew) changelogRemote else changelogLocal).incrementAndGet(); () }

  /** The stream of a file in the checkpoint, which counts as remote. */
  def counted(name: String, stream: FSDataInputStream): FSDataInputStream =
    if (name.endsWith(".changelog")) { changelogRemote.incrementAndGet(); stream }
    else if (name.endsWith(".zip")) { remoteFiles.incrementAndGet(); new CountingStream(stream, remoteBytes) }
    else stream

  /** The counts since the last call; None when nothing was read. */
  def take(): Option[ReadCounts] = {
    val counts = ReadCounts(localFiles.getAndSet(0), localBytes.getAndSet(0), remoteFiles.getAndSet(0),
      remoteBytes.getAndSet(0), changelogLocal.getAndSet(0), changelogRemote.getAndSet(0))
    if (counts.isEmpty) None else Some(counts)
  }
}

final case class ReadCounts(
    localFiles: Long, localBytes: Long, remoteFiles: Long, remoteBytes: Long, localChangelogs: Long,
    remoteChangelogs: Long) {
  def isEmpty: Boolean = localFiles + remoteFiles + localChangelogs + remoteChangelogs == 0

  /** For a log line. */
  def inWords: String =
    s"from this host $localFiles files ($localBytes bytes), $localChangelogs changelogs; " +
      s"from the checkpoint $remoteFiles files ($remoteBytes bytes), $remoteChangelogs changelogs"
}

object ReadCounts {
  val Nothing: ReadCounts = ReadCounts(0, 0, 0, 0, 0, 0)
}

object StoreReads {
  private val byStore = new LastUsed[String, StoreReads](LastUsed.Stores)

  /** The counts for the store whose files the checkpoint keeps in `storeDir`; one object for each store of this JVM. */
  def of(storeDir: Path): StoreReads = byStore.getOrMake(storeDir.toUri.getPath)(new StoreReads)
}

private final class CountingStream(stream: FSDataInputStream, bytes: AtomicLong)
  extends FSDataInputStream(new CountingInput(stream, bytes))

private final class CountingInput(stream: FSDataInputStream, bytes: AtomicLong)
  extends org.apache.hadoop.fs.FSInputStream {
  override def seek(position: Long): Unit = stream.seek(position)
  override def getPos: Long = stream.getPos
  override def seekToNewSource(target: Long): Boolean = stream.seekToNewSource(target)
  override def available(): Int = stream.available()
  override def close(): Unit = stream.close()
  override def read(): Int = {
    val b = stream.read()
    if (b >= 0) bytes.incrementAndGet()
    b
  }
  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
    val n = stream.read(buffer, offset, length)
    if (n > 0) bytes.addAndGet(n)
    n
  }
}
