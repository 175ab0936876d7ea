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
 * Keeps a host's store within `limit` bytes, its disk above the store's floor of free space, and both clean of what a
 * killed executor left half written.
 *
 * What was not opened for longest goes first; within one state store the oldest file does. A file that some executor
 * has open (it has one link more) stays. One executor of the host sweeps at a time; a daemon thread does it. Every file
 * is looked at then, which may be many: only when there may be anything to do, and seldom where it takes long.
 */
final class HostStoreSweep(store: HostStore, limit: Long) {
  import HostStoreSweep._

  private val thread = Daemon.start("mooring-host-store-sweep")(run())

  def stop(): Unit = thread.interrupt()

  private var tidyFrom = System.nanoTime() // when to look again for what was abandoned

  private def run(): Unit =
    try {
      orSay(alone(dropTemporary()))
      var took = 0L
      while (true) {
        TimeUnit.NANOSECONDS.sleep(math.min(math.max(PauseNanos, 100 * took), LongestPauseNanos))
        val start = System.nanoTime()
        orSay(if (isDue) alone(sweep()))
        took = System.nanoTime() - start
      }
    } catch { case _: InterruptedException => } // the executor ends

  private def orSay(body: => Unit): Unit =
    try body
    catch {
      case e: InterruptedException => throw e
      case _: ClosedByInterruptException => throw new InterruptedException
      case NonFatal(e) => Log.failed("local-store-sweep", e)(s"the local store could not be swept ($e): it may outgrow its limit")
    }

  private def isDue = limit < Long.MaxValue || store.lackOfRoom() > 0 || System.nanoTime() - tidyFrom >= 0

  private def alone(body: => Unit): Unit =
    Using.resource(FileChannel.open(store.root.resolve(".sweep"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
      channel =>
        val lock = try Option(channel.tryLock()) catch { case _: OverlappingFileLockException => None }
        lock.foreach(l => try body finally l.release())
    }

  /** Sweeps once, now. */
  def sweep(): Unit = {
    tidyFrom = System.nanoTime() + AbandonedNanos
    dropTemporary()
    val files = filesThatStay()
    val longAgo = FileTime.fromMillis(System.currentTimeMillis() - TimeUnit.NANOSECONDS.toMillis(AbandonedNanos))
    files.foreach { case Found(path, _, changed) =>
      if (isTemporary(path) && changed.compareTo(longAgo) < 0) Files.deleteIfExists(path)
    }
    shrink(files.flatMap(f => KeptFile.parse(f.path.getFileName.toString).map(f -> _))
      .groupMap { case (found, _) => found.inode } { case (found, kept) => found.path -> kept }.values.map(new Content(_)).toVector)
  }

  /**
   * Removes what is kept of checkpoints that nobody can use again: a query without a checkpoint location has a temporary one,
   * which Spark deletes when the query ends.
   */
  private def dropTemporary(): Unit = for (owner <- children(store.root) if Files.isDirectory(owner)) {
    val checkpoint = try Files.readString(owner.resolve(HostStore.OwnerFile)) catch { case _: NoSuchFileException => "" }
    checkpoint match {
      case TemporaryCheckpoint(path) if !Files.exists(Path.of(path)) => drop(owner)
      case _ =>
    }
  }

  /** Others may write to it meanwhile: what they add stays, and goes the next time. */
  private def drop(path: Path): Unit = {
    val (owner, others) = children(path).partition(_.getFileName.toString == HostStore.OwnerFile)
    (others ++ owner).foreach(drop) // without its owner's name nobody would know what is left
    try Files.deleteIfExists(path)
    catch { case _: DirectoryNotEmptyException => }
    ()
  }

  private def children(path: Path): Vector[Path] =
    try Using.resource(Files.newDirectoryStream(path))(_.asScala.toVector)
    catch { case _: NoSuchFileException | _: NotDirectoryException => Vector.empty }

  private def isTemporary(file: Path) = file.getFileName.toString.startsWith(HostStore.TemporaryPrefix)

  /** Every file with its time of change. Executors write and remove files meanwhile; what vanishes is not listed. */
  private def filesThatStay(): Vector[Found] = {
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

  /** When the store was opened, or last kept or let go of a file. */
  private def usedAt(dir: Path): Long = Seq(dir, dir.resolve(HostStore.UsedMark)).map { path =>
    try HostStore.mtime(path)
    catch { case _: NoSuchFileException => 0L } // never opened, or gone by now
  }.max
}

object HostStoreSweep {
  private final case class Found(path: Path, inode: AnyRef, changed: FileTime)

  /** What lies on the disk once, under all the names that it is kept by: Spark uploads old files again, by new names. */
  private final class Content(val names: Vector[(Path, KeptFile)]) {
    def length: Long = names.head._2.length
    def writtenAt: Long = names.head._2.mtimeNanos
    def directories: Vector[Path] = names.map(_._1.getParent)

    /** An executor has it open: it has another name, in that one's working directory. */
    def isInUse: Boolean =
      try Files.getAttribute(names.head._1, "unix:nlink").asInstanceOf[Int] > names.size
      catch { case _: NoSuchFileException => false }

    def delete(): Boolean = names.map { case (path, _) => Files.deleteIfExists(path) }.contains(true)
  }

  /** As Spark names it, in the temporary directory of the driver's JVM. */
  private val TemporaryCheckpoint = s"file:(?://)?(/.*/temporary-${HostStore.UniqueId})".r

  private val PauseNanos = TimeUnit.SECONDS.toNanos(30)
  private val LongestPauseNanos = TimeUnit.MINUTES.toNanos(10)
  private val AbandonedNanos = TimeUnit.HOURS.toNanos(1)
}
