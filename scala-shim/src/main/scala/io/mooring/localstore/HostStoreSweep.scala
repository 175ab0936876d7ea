package io.mooring.localstore

import java.io.IOException
import java.nio.channels.{ClosedByInterruptException, FileChannel, OverlappingFileLockException}
import java.nio.file._
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log}

/**
 * Keeps the host's store within `limit` bytes, keeps the store's floor of free space on its disk, and removes unfinished files that killed
 * executors have left.
 *
 * Files of the state store that was not used for longest are removed first; within a store, the oldest file. A file that an executor has
 * open stays: it has one hard link more. A sweep looks at every file, so it runs only when there may be something to do, and less often
 * where it takes long.
 *
 * A daemon thread of each executor, from the making of this object until `stop`. One executor of the host sweeps at a time. Without it, the
 * store may fill the disk.
 */
final class HostStoreSweep(store: HostStore, limit: Long) {
  import HostStoreSweep._

  private val thread = Daemon.start("mooring-host-store-sweep")(run())

  def stop(): Unit = thread.interrupt()

  private var nextTidyAt = System.nanoTime() // when to look for unfinished files again

  private def run(): Unit =
    try {
      orLog(withSweepLock(dropTemporary()))
      var took = 0L
      while (true) {
        TimeUnit.NANOSECONDS.sleep(math.min(math.max(PauseNanos, 100 * took), LongestPauseNanos))
        val start = System.nanoTime()
        orLog(if (isDue) withSweepLock(sweep()))
        took = System.nanoTime() - start
      }
    } catch { case _: InterruptedException => } // the executor ends

  private def orLog(body: => Unit): Unit =
    try body
    catch {
      case e: InterruptedException => throw e
      case _: ClosedByInterruptException => throw new InterruptedException
      case NonFatal(e) => Log.failed("local-store-sweep", e)(s"the local store could not be swept ($e): it may outgrow its limit")
    }

  private def isDue = limit < Long.MaxValue || store.lackOfRoom() > 0 || System.nanoTime() - nextTidyAt >= 0

  /** Runs `body` unless another executor of the host sweeps. */
  private def withSweepLock(body: => Unit): Unit =
    Using.resource(FileChannel.open(store.root.resolve(".sweep"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      channel =>
        val lock = try Option(channel.tryLock()) catch { case _: OverlappingFileLockException => None }
        lock.foreach(l => try body finally l.release())
    }

  /** Sweeps once, now. */
  def sweep(): Unit = {
    nextTidyAt = System.nanoTime() + AbandonedNanos
    dropTemporary()
    val files = allFiles()
    val longAgo = FileTime.fromMillis(System.currentTimeMillis() - TimeUnit.NANOSECONDS.toMillis(AbandonedNanos))
    files.foreach { case Found(path, _, changed) =>
      if (isTemporary(path) && changed.compareTo(longAgo) < 0) Files.deleteIfExists(path)
    }
    shrink(files.flatMap(f => KeptFile.parse(f.path.getFileName.toString).map(f -> _))
      .groupMap { case (found, _) => found.inode } { case (found, kept) => found.path -> kept }.values.map(new Content(_)).toVector)
  }

  /**
   * Removes files of temporary checkpoints that are gone. A query without a checkpoint location has a temporary checkpoint, which Spark
   * deletes when the query ends.
   */
  private def dropTemporary(): Unit = for (owner <- children(store.root) if Files.isDirectory(owner)) {
    val checkpoint = try Files.readString(owner.resolve(HostStore.OwnerFile)) catch { case _: NoSuchFileException => "" }
    checkpoint match {
      case TemporaryCheckpoint(path) if !Files.exists(Path.of(path)) => drop(owner)
      case _ =>
    }
  }

  /** Removes a directory. Files that other executors write to it meanwhile stay until the next time. */
  private def drop(path: Path): Unit = {
    val (owner, others) = children(path).partition(_.getFileName.toString == HostStore.OwnerFile)
    (others ++ owner).foreach(drop) // OWNER last: without it the remaining files would have no owner
    try Files.deleteIfExists(path)
    catch { case _: DirectoryNotEmptyException => }
    ()
  }

  private def children(path: Path): Vector[Path] =
    try Using.resource(Files.newDirectoryStream(path))(_.asScala.toVector)
    catch { case _: NoSuchFileException | _: NotDirectoryException => Vector.empty }

  private def isTemporary(file: Path) = file.getFileName.toString.startsWith(HostStore.TemporaryPrefix)

  /** All files with their modification times. Files that executors remove meanwhile are left out. */
  private def allFiles(): Vector[Found] = {
    val found = Vector.newBuilder[Found]
    Files.walkFileTree(store.root, new SimpleFileVisitor[Path] {
      override def visitFile(file: Path, attributes: BasicFileAttributes): FileVisitResult = {
        if (attributes.isRegularFile)
          found += Found(file, Option(attributes.fileKey).getOrElse(file), attributes.lastModifiedTime())
        FileVisitResult.CONTINUE
      }
      override def visitFileFailed(file: Path, e: IOException): FileVisitResult = FileVisitResult.CONTINUE
      override def postVisitDirectory(dir: Path, e: IOException): FileVisitResult = FileVisitResult.CONTINUE
    })
    found.result()
  }

  private def shrink(kept: Vector[Content]): Unit = {
    var excess = math.max(kept.map(_.length).sum - limit, store.lackOfRoom())
    if (excess > 0) {
      val lastUse = kept.flatMap(_.directories).distinct.map(dir => dir -> usedAt(dir)).toMap
      kept.sortBy(content => (content.directories.map(lastUse).max, content.writtenAt))
        .iterator.takeWhile(_ => excess > 0).filterNot(_.isInUse)
        .foreach(content => if (content.delete()) excess -= content.length)
    }
  }

  /** When the state store was last opened, or a file of it was last kept or removed. */
  private def usedAt(dir: Path): Long = Seq(dir, dir.resolve(HostStore.UsedMark)).map { path =>
    try HostStore.mtime(path)
    catch { case _: NoSuchFileException => 0L } // never opened, or gone by now
  }.max
}

object HostStoreSweep {
  private final case class Found(path: Path, inode: AnyRef, changed: FileTime)

  /** One content on the disk, with all names under which it is kept: Spark uploads old files again under new names. */
  private final class Content(val names: Vector[(Path, KeptFile)]) {
    def length: Long = names.head._2.length
    def writtenAt: Long = names.head._2.mtimeNanos
    def directories: Vector[Path] = names.map(_._1.getParent)

    /** Whether an executor has the file open: then it has one hard link more, in the executor's working directory. */
    def isInUse: Boolean =
      try Files.getAttribute(names.head._1, "unix:nlink").asInstanceOf[Int] > names.size
      catch { case _: NoSuchFileException => false }

    def delete(): Boolean = names.map { case (path, _) => Files.deleteIfExists(path) }.contains(true)
  }

  /** The location of a temporary checkpoint, as Spark names it in the temporary directory of the driver's JVM. */
  private val TemporaryCheckpoint = s"file:(?://)?(/.*/temporary-${HostStore.UniqueId})".r

  private val PauseNanos = TimeUnit.SECONDS.toNanos(30)
  private val LongestPauseNanos = TimeUnit.MINUTES.toNanos(10)
  private val AbandonedNanos = TimeUnit.HOURS.toNanos(1)
}
