package io.mooring.localstore

import java.io.{InputStream, OutputStream}
import java.nio.channels.ClosedByInterruptException
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file._
import java.nio.file.attribute.{BasicFileAttributes, FileTime}
import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}
import java.util.zip.{CheckedOutputStream, CRC32C}

import scala.jdk.CollectionConverters._
import scala.util.Using

import io.mooring.common.Log
import org.apache.hadoop.fs.{FileSystem, Path => RemotePath}

/** The kept files of one state store. Safe for several executors of one host at once. */
final class HostStoreFiles(hostStore: HostStore, checkpoint: String, ownerDir: Path, dir: Path) {
  import HostStore._

  /**
   * Keeps `file` under `name`, which is new or was just let go of: a hard link, or a copy where the store lies on another
   * file system. The caller may remove `file` at once, but not change it.
   */
  def keep(name: String, file: Path): Unit = if (hasRoom) attempt(s"keep $name") {
    prepare()
    val link = dir.resolve(KeptFile.of(name, file, None).fileName)
    try Files.createLink(link, file)
    catch {
      case _: FileAlreadyExistsException => // this very file is kept
      case e if needsCopy(e) =>
        sayCopied(e.toString)
        Using.resource(Files.newInputStream(file))(in => write(name)(in.transferTo(_)))
    }
  }

  /** Keeps `file`, which was fetched, instead of what the opening store has seen under `name`. */
  def replace(name: String, file: Path): Unit = {
    attempt(s"remove $name")(find(name).foreach { case (path, _) => Files.deleteIfExists(path) })
    keep(name, file)
  }

  /** Where a new file is to be made (by `create`), filled and then kept by `publish`; None when that can not be. */
  def temporary(): Option[Path] = if (!hasRoom) None else attemptOr[Option[Path]]("write", None) {
    prepare()
    Some(dir.resolve(TemporaryPrefix + UUID.randomUUID()))
  }

  // What was written of a version, in its order. To make a file takes longer than all else that keeping a small one needs.
  private val written = new ConcurrentLinkedQueue[() => Unit]
  @volatile private var isOurs = false // a store of ours was opened here, which says when its versions are complete

  /** Keeps `bytes` under `name`, which nobody else writes, when the version is complete; at once where no store would say so. */
  def keepComplete(name: String, bytes: Array[Byte]): Unit = whenComplete(keepBytes(name, bytes))

  /** The same for what lies in `temporary`, and whose CRC32C is `crc`. */
  def keepComplete(name: String, temporary: Path, crc: Long): Unit = whenComplete { publish(name, temporary, crc); () }

  private def whenComplete(keep: => Unit): Unit = {
    written.add(() => keep)
    if (!isOurs) complete()
  }

  private def keepBytes(name: String, bytes: Array[Byte]): Unit = if (hasRoom) attempt(s"keep $name") {
    prepare()
    write(name)(writeTo(_, bytes))
    ()
  }

  /** A version is complete, or was given up: what was written of it is kept. By whoever commits, before it counts as committed. */
  def complete(): Unit = written.synchronized {
    val wasInterrupted = Thread.interrupted() // as a task that was killed, which may find what maintenance has written
    try Iterator.continually(written.poll()).takeWhile(_ != null).foreach { keep =>
      try KeepingTime.ofFile(keep())
      catch { case _: ClosedByInterruptException => } // killed just now: the file is a miss
    } finally if (wasInterrupted) Thread.currentThread().interrupt()
  }

  /**
   * Keeps what `in` holds under `name`, which nobody else writes; its length, or None where there is no room for it.
   * IOException when the stream or the disk fails: nothing is kept then.
   */
  def take(name: String, in: InputStream): Option[Long] = if (!hasRoom) None else {
    prepare()
    val kept = write(name)(in.transferTo(_))
    synchronized { listing = listing.map(_ => new Listing) }
    kept.map(Files.size)
  }

  // Of the store that is about to be opened here
  private val coming = new AtomicReference[Coming]
  private val aheadMs = new AtomicLong
  private val ahead = ConcurrentHashMap.newKeySet[String]() // files that have come for it

  /** Its files are to be fetched, before it is opened; `made` from what was to come until now. */
  private[mooring] def comes(made: Option[Coming] => Coming): Coming = coming.updateAndGet(before => made(Option(before)))

  /** These were fetched for the store that is about to be opened, which took so long. */
  def came(names: Set[String], milliseconds: Long): Unit = if (names.nonEmpty) {
    names.foreach(ahead.add)
    aheadMs.set(milliseconds)
  }

  /** How long fetching ahead has taken for the store that was opened; 0 where nothing was fetched so. */
  def takeAheadMs(): Long = aheadMs.getAndSet(0)

  /** Whether the file is one of those; true once. */
  def cameAhead(name: String): Boolean = ahead.remove(name)

  private def write(name: String)(fill: OutputStream => Unit): Option[Path] = {
    val temporary = dir.resolve(TemporaryPrefix + UUID.randomUUID())
    try {
      val crc = new CRC32C
      Using.resource(create(temporary))(out => fill(new CheckedOutputStream(out, crc)))
      publish(name, temporary, crc.getValue)
    } finally Files.deleteIfExists(temporary)
  }

  /** The names of all files that are kept, with their lengths. */
  def kept: Map[String, Long] = list("").map { case (_, file) => file.name -> file.length }.toMap

  /** Those names alone, which takes a fraction of the time where many files are kept. */
  def names: Set[String] = entries("").flatMap(KeptFile.nameIn).toSet

  /** Lets go of these files. */
  def forget(names: Set[String]): Unit = attempt("remove what is not needed") {
    for (path <- entries("") if KeptFile.nameIn(path).exists(names) && KeptFile.parse(path.getFileName.toString).isDefined)
      Files.deleteIfExists(path)
  }

  /** Lets go, soon, of what is superseded: by what is kept then. */
  def tidy(superseded: Set[String] => Set[String]): Unit = hostStore.soon("remove what is not needed") {
    val gone = superseded(attemptOr("list its files", Set.empty[String])(names))
    if (gone.nonEmpty) forget(gone)
  }

  /** Gives back what the checkpoint has lost of these files, soon. */
  def mend(storeDir: RemotePath, names: Set[String], files: FileSystem): Unit =
    hostStore.soon("mend the checkpoint")(new Mending(storeDir, this, files).look(names))

  private def hasRoom: Boolean = hostStore.lackOfRoom() == 0 || {
    hostStore.sayFull()
    false
  }

  /** Gives `temporary`, whose CRC32C is `crc`, its lasting name in one step. */
  def publish(name: String, temporary: Path, crc: Long): Option[Path] = attemptOr[Option[Path]](s"keep $name", None) {
    val kept = dir.resolve(KeptFile.of(name, temporary, Some(crc)).fileName)
    Some(Files.move(temporary, kept, StandardCopyOption.ATOMIC_MOVE))
  }

  /**
   * The whole, unharmed file of this name. It counts as unharmed when length and modification time are those it was
   * kept with; otherwise, and always when `readIt`, the checksum in its name decides, or where there is none those of
   * its blocks. A file that is not proved is removed.
   */
  def sound(name: String, readIt: Boolean): Option[Path] = attemptOr[Option[Path]](s"use $name", None) {
    find(name).filter { case (path, _) => Files.exists(path) }.find { case (path, kept) =>
      val good = Files.size(path) == kept.length &&
        ((!readIt && mtime(path) == kept.mtimeNanos) || isProved(path, kept))
      if (!good) {
        Log.warn(s"dropped ${path.getFileName} of $checkpoint: its content is not what was kept; fetched from the checkpoint")
        Files.deleteIfExists(path)
      }
      good
    }.map(_._1)
  }

  def has(name: String): Boolean = attemptOr("look up", false)(find(name).nonEmpty)

  /** Puts the sound file `name` at `target`; its length, or None when there is none. */
  def adopt(name: String, target: Path, readIt: Boolean): Option[Long] = sound(name, readIt).flatMap { path =>
    attemptOr[Option[Long]](s"use $name", None) {
      try Files.createLink(target, path)
      catch {
        case e if needsCopy(e) =>
          sayCopied(e.toString)
          Files.copy(path, target)
      }
      Some(Files.size(target))
    }
  }

  def forget(name: String): Unit = attempt(s"remove $name") {
    list(name + Separator).foreach { case (path, _) => Files.deleteIfExists(path) }
  }

  /** Notes that the store was opened here now; what was not opened for longest goes first when room is needed. */
  def touch(): Unit = attempt("note the use of a store") {
    if (Files.isDirectory(dir)) {
      val mark = dir.resolve(UsedMark)
      if (Files.exists(mark)) Files.setLastModifiedTime(mark, FileTime.fromMillis(System.currentTimeMillis()))
      else Files.createFile(mark, OwnerOnlyFile)
    }
  }

  /**
   * The store is opened from now on, when what is coming for it has come: what is asked for until `opened` is looked up in
   * one listing. InterruptedException when the task is killed meanwhile.
   */
  def opening(): Unit = {
    Option(coming.getAndSet(null)).foreach(_.await())
    isOurs = true
    complete() // of a version that was given up in the middle
    synchronized { listing = Some(new Listing) }
  }

  def opened(): Unit = synchronized {
    listing = None
    ahead.clear()
  }

  // An opening asks for some ten names. What other executors keep or remove meanwhile is at worst a miss.
  private final class Listing { lazy val names: Map[String, Seq[(Path, KeptFile)]] = list("").groupBy(_._2.name) }
  @volatile private var listing: Option[Listing] = None

  private def find(name: String): Seq[(Path, KeptFile)] =
    listing.fold(list(name + Separator))(_.names.getOrElse(name, Nil))

  /** The kept files whose own names begin so. */
  private def list(start: String): Seq[(Path, KeptFile)] =
    entries(start).flatMap(p => KeptFile.parse(p.getFileName.toString).map(p -> _))

  private def entries(start: String): Seq[Path] =
    try Using.resource(Files.newDirectoryStream(dir, (p: Path) => p.getFileName.toString.startsWith(start)))(_.asScala.toSeq)
    catch {
      case _: NoSuchFileException | _: NotDirectoryException => Nil
    }

  private def prepare(): Unit = if (!Files.isDirectory(dir)) {
    Files.createDirectories(dir, OwnerOnlyDirectory)
    val owner = ownerDir.resolve(OwnerFile)
    if (!Files.exists(owner)) {
      val temporary = Files.createTempFile(ownerDir, TemporaryPrefix, "", OwnerOnlyFile)
      Files.write(temporary, checkpoint.getBytes(UTF_8))
      Files.move(temporary, owner, StandardCopyOption.ATOMIC_MOVE)
    }
  }
}

/** What a kept file's own name says of it. */
final case class KeptFile(name: String, length: Long, crc: Option[Long], mtimeNanos: Long) {
  def fileName: String =
    Seq(name, length.toString, crc.fold("")(_.toHexString), mtimeNanos.toString).mkString(HostStore.Separator)
}

object KeptFile {
  /** What is to be said of `file`. */
  def of(name: String, file: Path, crc: Option[Long]): KeptFile = {
    val written = Files.readAttributes(file, classOf[BasicFileAttributes])
    KeptFile(name, written.size, crc, HostStore.nanos(written.lastModifiedTime))
  }

  /** The name under which this file is kept, if it looks like one that is. */
  def nameIn(path: Path): Option[String] = {
    val fileName = path.getFileName.toString
    val end = fileName.indexOf(HostStore.Separator)
    Option.when(end > 0)(fileName.substring(0, end))
  }

  def parse(fileName: String): Option[KeptFile] = fileName.split(HostStore.Separator, -1) match {
    case Array(name, length, crc, mtime) =>
      def known = Option.when(crc.nonEmpty)(java.lang.Long.parseLong(crc, 16))
      try Some(KeptFile(name, length.toLong, known, mtime.toLong))
      catch { case _: NumberFormatException => None } // somebody else's file
    case _ => None
  }
}
