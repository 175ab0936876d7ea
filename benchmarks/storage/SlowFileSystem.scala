package benchmarks.storage

import java.io.OutputStream
import java.net.URI
import java.util.concurrent.locks.LockSupport

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable
import org.slf4j.LoggerFactory

/**
 * `slow:///path`: the local disk as far away as an object store. Each call takes 30 ms more, and a stream passes
 * 45 MB/s (`fs.slow.call.ms`, `fs.slow.stream.mb`). A call that the local file system makes inside another is not a
 * call. Every call, and the bytes of every stream, go to the log: the benchmark counts reads here, for both sides alike.
 */
final class SlowFileSystem extends RawLocalFileSystem {
  import SlowFileSystem._

  private var callMs = 30L
  private var bytesPerSecond = 45000000L
  private val inCall = ThreadLocal.withInitial[Boolean](() => false)

  override def initialize(uri: URI, conf: Configuration): Unit = {
    super.initialize(uri, conf)
    callMs = conf.getLong("fs.slow.call.ms", callMs)
    bytesPerSecond = conf.getLong("fs.slow.stream.mb", bytesPerSecond / 1000000) * 1000000
  }

  override def getUri: URI = Root
  override def getScheme: String = Root.getScheme

  override def open(file: Path, bufferSize: Int): FSDataInputStream = call("open", file) {
    new FSDataInputStream(new SlowInput(super.open(file, bufferSize), file, bytesPerSecond))
  }

  override def create(file: Path, overwrite: Boolean, bufferSize: Int, replication: Short, blockSize: Long,
      progress: Progressable): FSDataOutputStream = call("create", file) {
    slowed(file, super.create(file, overwrite, bufferSize, replication, blockSize, progress))
  }

  override def create(file: Path, permission: FsPermission, overwrite: Boolean, bufferSize: Int, replication: Short,
      blockSize: Long, progress: Progressable): FSDataOutputStream = call("create", file) {
    slowed(file, super.create(file, permission, overwrite, bufferSize, replication, blockSize, progress))
  }

  override def rename(from: Path, to: Path): Boolean = call("rename", to)(super.rename(from, to))
  override def delete(file: Path, recursive: Boolean): Boolean = call("delete", file)(super.delete(file, recursive))
  override def listStatus(dir: Path): Array[FileStatus] = call("list", dir)(super.listStatus(dir))
  override def getFileStatus(file: Path): FileStatus = call("status", file)(super.getFileStatus(file))
  override def exists(file: Path): Boolean = call("exists", file)(super.exists(file))
  override def mkdirs(dir: Path): Boolean = call("mkdirs", dir)(super.mkdirs(dir))
  override def mkdirs(dir: Path, permission: FsPermission): Boolean = call("mkdirs", dir)(super.mkdirs(dir, permission))

  /** `super.create` may come back here with fewer arguments: one stream is slowed once. */
  private def slowed(file: Path, out: FSDataOutputStream): FSDataOutputStream = out.getWrappedStream match {
    case _: SlowOutput => out
    case _ => new FSDataOutputStream(new SlowOutput(out, file, bytesPerSecond), null)
  }

  private def call[T](what: String, file: Path)(body: => T): T =
    if (inCall.get) body
    else {
      inCall.set(true)
      try {
        log.info(s"call $what ${file.toUri.getPath}")
        Thread.sleep(callMs)
        body
      } finally inCall.set(false)
    }
}

object SlowFileSystem {
  private val Root = URI.create("slow:///")
  private[storage] val log = LoggerFactory.getLogger("slow-storage")
}

/** Lets bytes pass no faster than so many a second, as long as it is asked: what was idle gives no credit. */
private final class Pace(bytesPerSecond: Long) {
  private var owedNanos = 0L
  var bytes = 0L

  def passed(count: Long, tookNanos: Long): Unit = {
    bytes += count
    owedNanos += count * 1000000000L / bytesPerSecond - tookNanos
    if (owedNanos < 0) owedNanos = 0
    if (owedNanos > Pace.ShortestSleepNanos) {
      val start = System.nanoTime()
      LockSupport.parkNanos(owedNanos)
      if (Thread.currentThread().isInterrupted) owedNanos = 0 // the task was killed, and parking has no effect
      else owedNanos -= System.nanoTime() - start
    }
  }
}

private object Pace {
  private val ShortestSleepNanos = 4000000L
}

private final class SlowInput(in: FSDataInputStream, file: Path, bytesPerSecond: Long) extends FSInputStream {
  private val pace = new Pace(bytesPerSecond)
  private var closed = false

  override def read(): Int = {
    val one = new Array[Byte](1)
    if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
  }

  override def read(buffer: Array[Byte], offset: Int, length: Int): Int = {
    val start = System.nanoTime()
    val count = in.read(buffer, offset, length)
    if (count > 0) pace.passed(count, System.nanoTime() - start)
    count
  }

  override def close(): Unit = if (!closed) {
    closed = true
    SlowFileSystem.log.info(s"read ${pace.bytes} ${file.toUri.getPath}")
    in.close()
  }

  override def seek(position: Long): Unit = in.seek(position)
  override def getPos: Long = in.getPos
  override def seekToNewSource(target: Long): Boolean = false
  override def available(): Int = in.available()
}

private final class SlowOutput(out: OutputStream, file: Path, bytesPerSecond: Long) extends OutputStream {
  private val pace = new Pace(bytesPerSecond)
  private var closed = false

  override def write(b: Int): Unit = write(Array(b.toByte), 0, 1)

  override def write(buffer: Array[Byte], offset: Int, length: Int): Unit = {
    val start = System.nanoTime()
    out.write(buffer, offset, length)
    pace.passed(length, System.nanoTime() - start)
  }

  override def flush(): Unit = out.flush()

  override def close(): Unit = if (!closed) {
    closed = true
    SlowFileSystem.log.info(s"wrote ${pace.bytes} ${file.toUri.getPath}")
    out.close()
  }
}
