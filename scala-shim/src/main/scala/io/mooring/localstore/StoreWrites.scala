package io.mooring.localstore

import java.io.OutputStream
import java.util.concurrent.ConcurrentHashMap
import java.util.zip.CRC32C

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** A file as it was written to the checkpoint. */
final case class WrittenFile(bytes: Long, crc: Long)

/**
 * What was written to the checkpoint for one state store, for the catalogue, until it is told of: archives and changelogs
 * with the version that they make, SST files with the archive that names them.
 */
final class StoreWrites {
  private val files = new ConcurrentHashMap[String, WrittenFile]()

  /** What a task wrote that was given up is never told of: it goes when there is too much. */
  def add(name: String, file: WrittenFile): Unit = {
    if (files.size >= StoreWrites.MostFiles) files.clear()
    files.put(name, file)
    ()
  }

  def take(name: String): Option[WrittenFile] = Option(files.remove(name))
}

object StoreWrites {
  private val MostFiles = 10000
  private val byStore = new ConcurrentHashMap[String, StoreWrites]()

  /** Whether a catalogue is kept: else nothing is noted. */
  @volatile private[mooring] var areTold = false

  /** Of the store whose files the checkpoint keeps in `storeDir`. */
  def of(storeDir: Path): Option[StoreWrites] =
    Option.when(areTold)(byStore.computeIfAbsent(storeDir.toUri.getPath, _ => new StoreWrites))
}

/** Counts what passes to the checkpoint, and notes the file once it is there. */
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
