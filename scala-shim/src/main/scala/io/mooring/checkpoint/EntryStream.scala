package io.mooring.checkpoint

import java.io.ByteArrayOutputStream

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Collects an entry of a log, and writes it to `out` when it is closed, changed by `asWritten`. Used by one thread. */
private[mooring] abstract class EntryStream(out: CancellableFSDataOutputStream, entry: ByteArrayOutputStream)
  extends CancellableFSDataOutputStream(entry) {
  private var closed = false

  protected def asWritten(entry: Array[Byte]): Array[Byte]

  override def close(): Unit = if (!closed) {
    closed = true
    out.write(asWritten(entry.toByteArray))
    out.close()
  }

  override def cancel(): Unit = {
    closed = true
    out.cancel()
  }
}
