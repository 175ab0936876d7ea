package io.mooring.checkpoint

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Using

import io.mooring.common.InMemoryFile
import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, Path, PathFilter}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.state.shims.{ClosableFiles, StreamShims}

/**
 * Caches what a stream's thread reads of its checkpoint while its query starts. Between start and first commit, the thread reads the same
 * few entries up to six times, and each read is a call to the storage.
 *
 * Cached are files that are written once, or only by the thread itself: entries of the logs of offsets and commits, and the metadata of
 * operators. A directory listing is cached for half a second only, as an earlier driver may still be writing its last entry. The absence
 * of a file is not cached. The cache ends with the first commit, or after a minute.
 *
 * Used by the stream's thread. Calls of other threads, and calls for other checkpoints, go to `stock`. Without it, a start makes more
 * calls to the storage.
 */
private[mooring] final class StartupReadCache(protected val stock: CheckpointFileManager) extends ClosableFiles {
  import StartupReadCache._

  override def open(file: Path): FSDataInputStream = cacheFor(file).filter(_ => isEntry(file)).fold(stock.open(file)) { cache =>
    val content = cache.contents.getOrElseUpdate(key(file), Using.resource(stock.open(file))(_.readAllBytes()))
    new FSDataInputStream(new InMemoryFile(content))
  }

  override def exists(path: Path): Boolean = cacheFor(path).filter(_ => isEntry(path) || isDirectory(path)).fold(stock.exists(path)) { cache =>
    cache.existing(key(path)) || cache.contents.contains(key(path)) || {
      val exists = stock.exists(path)
      if (exists) cache.existing.add(key(path))
      exists
    }
  }

  override def list(dir: Path, filter: PathFilter): Array[FileStatus] = cacheFor(dir).filter(_ => isDirectory(dir)).fold(stock.list(dir, filter)) {
    _.listed(key(dir))(stock.list(dir)).filter(found => filter.accept(found.getPath))
  }

  override def createAtomic(file: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    forget(file)
    if (file.getParent != null && file.getParent.getName == Commits && cacheFor(file).isDefined) end()
    stock.createAtomic(file, overwriteIfPossible)
  }

  override def mkdirs(dir: Path): Unit = {
    forget(dir)
    stock.mkdirs(dir)
  }

  override def delete(path: Path): Unit = {
    forget(path)
    stock.delete(path)
  }

  override def isLocal: Boolean = stock.isLocal
  override def createCheckpointDirectory(): Path = stock.createCheckpointDirectory()
}

private[mooring] object StartupReadCache {
  private final class Cache(val checkpoint: String) {
    private val began = System.nanoTime()
    private val lists = mutable.Map.empty[String, (Long, Array[FileStatus])] // when it was listed, and the files
    val contents = mutable.Map.empty[String, Array[Byte]]
    val existing = mutable.Set.empty[String]

    def isFresh: Boolean = System.nanoTime() - began < LongestNanos

    def listed(dir: String)(ask: => Array[FileStatus]): Array[FileStatus] = lists.get(dir) match {
      case Some((at, found)) if System.nanoTime() - at < ListingNanos => found
      case _ =>
        val (at, found) = (System.nanoTime(), ask)
        lists(dir) = at -> found
        found
    }

    def forget(path: String): Unit = {
      def isBelow(other: String) = other == path || other.startsWith(s"$path/")
      contents.filterInPlace((other, _) => !isBelow(other))
      existing.filterInPlace(!isBelow(_))
      lists.filterInPlace((other, _) => !isBelow(other) && !path.startsWith(s"$other/"))
    }
  }

  private val Commits = "commits"
  private val LongestNanos = TimeUnit.MINUTES.toNanos(1) // the longest life of a cache
  private val ListingNanos = TimeUnit.MILLISECONDS.toNanos(500)
  private val ofThread = new ThreadLocal[Option[Cache]] // null on threads that are no stream's thread

  /** Begins a cache for this thread, whose run starts from this checkpoint. Does nothing on other threads. */
  def begin(checkpoint: String): Unit = if (StreamShims.onStreamThread) ofThread.set(Some(new Cache(checkpoint)))

  /** The cache for this path. None on other threads, for other checkpoints, and when the start is over. */
  private def cacheFor(path: Path): Option[Cache] = Option(ofThread.get).flatten.filter { cache =>
    if (!cache.isFresh) end()
    cache.isFresh && key(path).startsWith(s"${cache.checkpoint}/")
  }

  private def end(): Unit = if (ofThread.get != null) ofThread.set(None)

  private def forget(path: Path): Unit = cacheFor(path).foreach(_.forget(key(path)))

  private def key(path: Path) = path.toString

  private def isLog(dir: Path) = dir != null && (dir.getName == "offsets" || dir.getName == Commits)

  /** Whether the file is an entry of a log, or the metadata of an operator. */
  private def isEntry(file: Path) = isLog(file.getParent) && file.getName.forall(_.isDigit) || key(file).contains("/state/") && key(file).contains("/_metadata/")

  private def isDirectory(dir: Path) = isLog(dir) || dir.getName == "state" || key(dir).contains("/state/") && dir.getName == "_metadata"
}
