package io.mooring.localstore

import java.io.OutputStream
import java.util.concurrent.ConcurrentHashMap
import java.util.zip.CRC32C

import io.mooring.common.LastUsed
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Length and CRC32C of a file that was written to the checkpoint. */
final case class WrittenFile(bytes: Long, crc: Long)

/**
 * The files that were written to the checkpoint for one state store and are not reported yet. The catalogue needs them. A changelog
 * is reported with its version. An archive and its SST files are reported with their snapshot. Used by the threads that write and report.
 */
final class StoreWrites {
  private val files = new ConcurrentHashMap[String, WrittenFile]()

  /** Notes a file. Files of a task that was given up are never reported: all are dropped when there are too many. */
  def add(name: String, file: WrittenFile): Unit = {
    if (files.size >= StoreWrites.MostFiles) files.clear()
    files.put(name, file)
    ()
  }

  /** Returns a noted file, and forgets it. */
  def take(name: String): Option[WrittenFile] = Option(files.remove(name))
}

object StoreWrites {
  private val MostFiles = 10000
  private val byStore = new LastUsed[String, StoreWrites](LastUsed.Stores)

  /** Whether files are noted: only where a catalogue is kept. */
  @volatile private[mooring] var areNoted = false

  /** The written files of the store in `storeDir`; None where no catalogue is kept. */
  def of(storeDir: Path): Option[StoreWrites] =
    Option.when(areNoted)(byStore.getOrMake(storeDir.toUri.getPath)(new StoreWrites))
}

/** A file that is written to the checkpoint. Notes it when it is complete. */
private[mooring] final class NotedStream(out: CancellableFSDataOutputStream, counting: CountingOutput, note: WrittenFile => Unit)
  extends CancellableFSDataOutputStream(counting) {
  def this(out: CancellableFSDataOutputStream, note: WrittenFile => Unit) = this(out, new CountingOutput(out), note)

  private var closed = false

  override def close(): Unit = if (!closed) {
    closed = true
    out.close()
    note(counting.written)
  }

  override def cancel(): Unit = {
    closed = true
    out.cancel()
  }
}

private final class CountingOutput(out: OutputStream) extends OutputStream {
  private val crc = new CRC32C
  private var bytes = 0L

  def written: WrittenFile = WrittenFile(bytes, crc.getValue)

  override def write(b: Int): Unit = write(Array(b.toByte), 0, 1)
  override def write(buffer: Array[Byte], offset: Int, length: Int): Unit = {
    out.write(buffer, offset, length)
    crc.update(buffer, offset, length)
    bytes += length
  }
  override def flush(): Unit = out.flush()
}
