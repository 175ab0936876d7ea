package io.mooring.checkpoint

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Using

import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, Path, PathFilter}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.state.shims.StreamShims

/**
 * Between its start and its first commit a stream's thread asks its checkpoint for the same few entries up to six times, and
 * each question is a call to the storage. Here it is answered by what it has heard before. That holds for what Spark writes
 * once and for good, or the thread itself: entries of the logs of offsets and commits, and what operators have written of
 * themselves. Which entries there are holds for a moment only, as an earlier driver may just be at its last. That something
 * is not there is asked again each time. Other threads, and other checkpoints, are passed on.
 */
private[mooring] final class StartupReadCache(stock: CheckpointFileManager) extends CheckpointFileManager {
  import StartupReadCache._

  override def open(file: Path): FSDataInputStream = heard(file).filter(_ => isEntry(file)).fold(stock.open(file)) { known =>
    val content = known.contents.getOrElseUpdate(key(file), Using.resource(stock.open(file))(_.readAllBytes()))
    new FSDataInputStream(new InMemoryFile(content))
  }

  override def exists(path: Path): Boolean = heard(path).filter(_ => isEntry(path) || isDirectory(path)).fold(stock.exists(path)) { known =>
    known.there(key(path)) || known.contents.contains(key(path)) || {
      val isThere = stock.exists(path)
      if (isThere) known.there.add(key(path))
      isThere
    }
  }

  override def list(dir: Path, filter: PathFilter): Array[FileStatus] = heard(dir).filter(_ => isDirectory(dir)).fold(stock.list(dir, filter)) {
    _.listed(key(dir))(stock.list(dir)).filter(found => filter.accept(found.getPath))
  }

  override def createAtomic(file: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    changes(file)
    if (file.getParent != null && file.getParent.getName == Commits && heard(file).isDefined) over()
    stock.createAtomic(file, overwriteIfPossible)
  }

  override def mkdirs(dir: Path): Unit = {
    changes(dir)
    stock.mkdirs(dir)
  }

  override def delete(path: Path): Unit = {
    changes(path)
    stock.delete(path)
  }

  override def isLocal: Boolean = stock.isLocal
  override def createCheckpointDirectory(): Path = stock.createCheckpointDirectory()
  override def close(): Unit = stock.close()
}

private[mooring] object StartupReadCache {
  private final class Heard(val checkpoint: String) {
    private val began = System.nanoTime()
    private val lists = mutable.Map.empty[String, (Long, Array[FileStatus])] // when, and what was there
    val contents = mutable.Map.empty[String, Array[Byte]]
    val there = mutable.Set.empty[String]

    def isFresh: Boolean = System.nanoTime() - began < LongestNanos

    def listed(dir: String)(ask: => Array[FileStatus]): Array[FileStatus] = lists.get(dir) match {
      case Some((at, found)) if System.nanoTime() - at < MomentNanos => found
      case _ =>
        val (at, found) = (System.nanoTime(), ask)
        lists(dir) = at -> found
        found
    }

    def forget(path: String): Unit = {
      def isBelow(other: String) = other == path || other.startsWith(s"$path/")
      contents.filterInPlace((other, _) => !isBelow(other))
      there.filterInPlace(!isBelow(_))
      lists.filterInPlace((other, _) => !isBelow(other) && !path.startsWith(s"$other/"))
    }
  }

  private val Commits = "commits"
  private val LongestNanos = TimeUnit.MINUTES.toNanos(1) // of a start
  private val MomentNanos = TimeUnit.MILLISECONDS.toNanos(500)
  private val ofThread = new ThreadLocal[Option[Heard]] // of a run's thread, with which it ends; null on others

  /** The run of this thread starts from this checkpoint. */
  def begin(checkpoint: String): Unit = if (StreamShims.onStreamThread) ofThread.set(Some(new Heard(checkpoint)))

  /** None on other threads, of other checkpoints, and when the start is over. */
  private def heard(path: Path): Option[Heard] = Option(ofThread.get).flatten.filter { known =>
    if (!known.isFresh) over()
    known.isFresh && key(path).startsWith(s"${known.checkpoint}/")
  }

  private def over(): Unit = if (ofThread.get != null) ofThread.set(None)

  private def changes(path: Path): Unit = heard(path).foreach(_.forget(key(path)))

  private def key(path: Path) = path.toString

  private def isLog(dir: Path) = dir != null && (dir.getName == "offsets" || dir.getName == Commits)

  /** An entry of a log, or what an operator has written of itself. */
  private def isEntry(file: Path) = isLog(file.getParent) && file.getName.forall(_.isDigit) || key(file).contains("/state/") && key(file).contains("/_metadata/")

  private def isDirectory(dir: Path) = isLog(dir) || dir.getName == "state" || key(dir).contains("/state/") && dir.getName == "_metadata"
}
