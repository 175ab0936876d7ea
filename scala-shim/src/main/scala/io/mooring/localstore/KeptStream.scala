package io.mooring.localstore

import java.io.{BufferedOutputStream, ByteArrayOutputStream, OutputStream}
import java.nio.channels.ClosedByInterruptException
import java.nio.file.{Files, Path => LocalPath}
import java.util.zip.{CheckedOutputStream, CRC32C}

import scala.util.control.NonFatal

import io.mooring.common.Log
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Writes a state file to the checkpoint, and a copy for the host. The host keeps the copy when the version is complete. */
private[mooring] final class KeptStream(out: CancellableFSDataOutputStream, copy: LocalCopy)
  extends CancellableFSDataOutputStream(new TeeStream(out, copy)) {

  private var closed = false

  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      try {
        super.close()
        KeepingTime.of(copy.publish())
      } finally KeepingTime.of(copy.discard())
    }
  }

  override def cancel(): Unit = synchronized {
    closed = true
    try out.cancel()
    finally copy.discard()
  }
}

/**
 * The host's copy of a file that is being written: in memory, and for files above `HostStore.SmallFile` on the disk. A failure here does
 * not reach the writer of the file; the copy is then not kept.
 */
private[mooring] final class LocalCopy(hostFiles: HostStoreFiles, name: String) {
  private var broken = false
  private var inMemory = Option(new ByteArrayOutputStream)
  private var out: OutputStream = OutputStream.nullOutputStream() // for a large file
  private var file = Option.empty[LocalPath]
  private val written = new CRC32C // of the bytes as they were written: a fault of the disk is found by it

  def write(bytes: Array[Byte], offset: Int, length: Int): Unit = guarded {
    inMemory.filter(_.size + length > HostStore.SmallFile).foreach { first =>
      inMemory = None
      file = hostFiles.temporary()
      file.foreach(path => out = new CheckedOutputStream(new BufferedOutputStream(HostStore.create(path)), written))
      HostStore.writeTo(out, first.toByteArray)
    }
    inMemory.getOrElse(out).write(bytes, offset, length)
  }

  /** The file is written completely. */
  def close(): Unit = {
    guarded(out.flush())
    try out.close()
    catch { case NonFatal(_) => broken = true } // `guarded` has logged the failure of a write
  }

  /** The checkpoint has the file: keeps the copy. The name is new, as it contains an id that Spark has just made. */
  def publish(): Unit = if (!broken) {
    inMemory.foreach(bytes => hostFiles.keepComplete(name, bytes.toByteArray))
    file.foreach(hostFiles.keepComplete(name, _, written.getValue))
    file = None
  }

  /** Removes a copy that was not published. Later writes have no effect. */
  def discard(): Unit = {
    close()
    inMemory = None
    broken = true
    HostStore.attempt("remove an unfinished file")(file.foreach(Files.deleteIfExists))
  }

  private def guarded(body: => Unit): Unit = if (!broken) {
    try body
    catch {
      case _: ClosedByInterruptException => broken = true // the task was killed
      case NonFatal(e) =>
        broken = true
        Log.failed("local-store-write", e)(s"the local store can not be written ($e): state that is not kept here is " +
          "fetched from the checkpoint when it is needed")
    }
  }
}

private final class TeeStream(out: CancellableFSDataOutputStream, copy: LocalCopy) extends OutputStream {
  override def write(b: Int): Unit = write(Array(b.toByte), 0, 1)
  override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
    out.write(bytes, offset, length)
    KeepingTime.of(copy.write(bytes, offset, length))
  }
  override def flush(): Unit = out.flush()
  override def close(): Unit = {
    KeepingTime.of(copy.close())
    out.close()
  }
}
