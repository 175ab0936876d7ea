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

/**
 * The files of one state store that the host keeps. Safe for several threads, and for several executors of the host. Failures are logged
 * once, and count as a missing file.
 *
 * @param ownerDir the directory of the checkpoint's files in the host's store
 * @param dir      the directory of this store's files
 */
final class HostStoreFiles(hostStore: HostStore, checkpoint: String, ownerDir: Path, dir: Path) {
  import HostStore._

  /**
   * Keeps `file` under `name`, which must not be kept yet: as a hard link, or as a copy where the store is on another file system. The
   * caller may remove `file` afterwards, but must not change it.
   */
  def keep(name: String, file: Path): Unit = if (hasRoom) attempt(s"keep $name") {
    prepare()
    val link = dir.resolve(KeptFile.of(name, file, None).fileName)
    try Files.createLink(link, file)
    catch {
      case _: FileAlreadyExistsException => // the same file is kept already
      case e if needsCopy(e) =>
        sayCopied(e.toString)
        Using.resource(Files.newInputStream(file))(in => write(name)(in.transferTo(_)))
    }
  }

  /** Keeps `file`, which was fetched from the checkpoint, in the place of the file that is kept under `name`. */
  def replace(name: String, file: Path): Unit = {
    attempt(s"remove $name")(find(name).foreach { case (path, _) => Files.deleteIfExists(path) })
    keep(name, file)
  }

  /** The path for a new file that is made by `create`, written, and kept by `publish`. None when it can not be written. */
  def temporary(): Option[Path] = if (!hasRoom) None else attemptOr[Option[Path]]("write", None) {
    prepare()
    Some(dir.resolve(TemporaryPrefix + UUID.randomUUID()))
  }

  // The files of a version that is being written, in order. They are made when the version is complete, as making a small file takes
  // longer than writing it.
  private val written = new ConcurrentLinkedQueue[() => Unit]
  @volatile private var isOurs = false // whether Mooring's provider has opened the store in this JVM; then the provider calls `complete`

  /** Keeps `bytes` under `name` when the version is complete; at once where no store would call `complete`. */
  def keepComplete(name: String, bytes: Array[Byte]): Unit = whenComplete(keepBytes(name, bytes))

  /** Keeps the file `temporary`, whose CRC32C is `crc`, under `name` when the version is complete. */
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

  /** Keeps the files of a version that is complete, or was given up. Called by the thread that commits, before the commit is reported. */
  def complete(): Unit = written.synchronized {
    val wasInterrupted = Thread.interrupted() // a killed task may run this for files that maintenance has written
    try Iterator.continually(written.poll()).takeWhile(_ != null).foreach { keep =>
      try KeepingTime.ofFile(keep())
      catch { case _: ClosedByInterruptException => } // the task was killed just now: the file is not kept
    } finally if (wasInterrupted) Thread.currentThread().interrupt()
  }

  /**
   * Keeps the bytes of `in` under `name`. Their number, or None where there is no room. IOException when the stream or the disk fails:
   * nothing is kept then.
   */
  def keepStream(name: String, in: InputStream): Option[Long] = if (!hasRoom) None else {
    prepare()
    val kept = write(name)(in.transferTo(_))
    synchronized { listing = listing.map(_ => new Listing) }
    kept.map(Files.size)
  }

  // Files that are fetched before a task opens the store here
  private val fetchAhead = new AtomicReference[FetchAhead] // the fetch that the next `opening` waits for
  private val aheadMs = new AtomicLong
  private val ahead = ConcurrentHashMap.newKeySet[String]() // files that have come

  /** Sets the fetch that `opening` waits for. `make` gets the fetch that was set before, if it is not taken yet. */
  private[mooring] def expect(make: Option[FetchAhead] => FetchAhead): FetchAhead = fetchAhead.updateAndGet(before => make(Option(before)))

  /** Notes files that were fetched before the store is opened, and how long the fetch has taken. */
  def fetchedAhead(names: Set[String], milliseconds: Long): Unit = if (names.nonEmpty) {
    names.foreach(ahead.add)
    aheadMs.set(milliseconds)
  }

  /** How long it took to fetch files ahead for the store that was opened, in milliseconds; 0 where nothing was fetched. Resets it. */
  def takeAheadMs(): Long = aheadMs.getAndSet(0)

  /** Whether the file was fetched ahead; true once. */
  def cameAhead(name: String): Boolean = ahead.remove(name)

  /** Keeps what `fill` writes. */
  private def write(name: String)(fill: OutputStream => Unit): Option[Path] = {
    val temporary = dir.resolve(TemporaryPrefix + UUID.randomUUID())
    try {
      val crc = new CRC32C
      Using.resource(create(temporary))(out => fill(new CheckedOutputStream(out, crc)))
      publish(name, temporary, crc.getValue)
    } finally Files.deleteIfExists(temporary)
  }

  /** The names of all kept files, with their lengths. */
  def kept: Map[String, Long] = list("").map { case (_, file) => file.name -> file.length }.toMap

  /** The names of all kept files. Takes a fraction of the time of `kept` where there are many. */
  def names: Set[String] = entries("").flatMap(KeptFile.nameIn).toSet

  /** Removes these files. */
  def forget(names: Set[String]): Unit = attempt("remove what is not needed") {
    for (path <- entries("") if KeptFile.nameIn(path).exists(names) && KeptFile.parse(path.getFileName.toString).isDefined)
      Files.deleteIfExists(path)
  }

  /** Removes, in the background, those of the kept files that `superseded` returns. */
  def tidy(superseded: Set[String] => Set[String]): Unit = hostStore.soon("remove what is not needed") {
    val gone = superseded(attemptOr("list its files", Set.empty[String])(names))
    if (gone.nonEmpty) forget(gone)
  }

  /** Writes back, in the background, those of these files that the checkpoint has lost. */
  def mend(storeDir: RemotePath, names: Set[String], files: FileSystem): Unit =
    hostStore.soon("mend the checkpoint")(new Mending(storeDir, this, files).run(names))

  private def hasRoom: Boolean = hostStore.lackOfRoom() == 0 || {
    hostStore.sayFull()
    false
  }

  /** Gives the file `temporary`, whose CRC32C is `crc`, its final name in one step. */
  def publish(name: String, temporary: Path, crc: Long): Option[Path] = attemptOr[Option[Path]](s"keep $name", None) {
    val kept = dir.resolve(KeptFile.of(name, temporary, Some(crc)).fileName)
    Some(Files.move(temporary, kept, StandardCopyOption.ATOMIC_MOVE))
  }

  /**
   * The path of the file with this name, if it is sound: its length and modification time are those that it was kept with. Otherwise, and
   * always with `readIt`, its content decides: by the checksum in the file's name, or without one by the checksums of the SST file's
   * blocks. A file that is not sound is removed.
   */
  def checked(name: String, readIt: Boolean): Option[Path] = attemptOr[Option[Path]](s"use $name", None) {
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

  /** Puts the sound file `name` at `target`. Its length, or None when there is no such file. */
  def adopt(name: String, target: Path, readIt: Boolean): Option[Long] = checked(name, readIt).flatMap { path =>
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

  /** Notes that the store is used now. When room is needed, files of the store that was not used for longest are removed first. */
  def touch(): Unit = attempt("note the use of a store") {
    if (Files.isDirectory(dir)) {
      val mark = dir.resolve(UsedMark)
      if (Files.exists(mark)) Files.setLastModifiedTime(mark, FileTime.fromMillis(System.currentTimeMillis()))
      else Files.createFile(mark, OwnerOnlyFile)
    }
  }

  /**
   * The store is about to be opened. Blocks until the files that are fetched ahead are here. Until `openingEnded`, files are looked up in one
   * listing of the directory. InterruptedException when the task is killed meanwhile.
   */
  def opening(): Unit = {
    Option(fetchAhead.getAndSet(null)).foreach(_.await())
    isOurs = true
    complete() // files of a version that was given up
    synchronized { listing = Some(new Listing) }
  }

  /** The opening has ended, well or badly. */
  def openingEnded(): Unit = synchronized {
    listing = None
    ahead.clear()
  }

  // An opening looks up some ten names. A file that another executor keeps meanwhile is not found, which costs one fetch.
  private final class Listing { lazy val names: Map[String, Seq[(Path, KeptFile)]] = list("").groupBy(_._2.name) }
  @volatile private var listing: Option[Listing] = None

  private def find(name: String): Seq[(Path, KeptFile)] =
    listing.fold(list(name + Separator))(_.names.getOrElse(name, Nil))

  /** The kept files whose file names begin with `start`. */
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

/** What the file name of a kept file tells about it. `crc` is None for a linked file. */
final case class KeptFile(name: String, length: Long, crc: Option[Long], mtimeNanos: Long) {
  def fileName: String =
    Seq(name, length.toString, crc.fold("")(_.toHexString), mtimeNanos.toString).mkString(HostStore.Separator)
}

object KeptFile {
  /** The description of `file` as it is now. */
  def of(name: String, file: Path, crc: Option[Long]): KeptFile = {
    val written = Files.readAttributes(file, classOf[BasicFileAttributes])
    KeptFile(name, written.size, crc, HostStore.nanos(written.lastModifiedTime))
  }

  /** The name under which this file is kept; None for a file that is not a kept one. */
  def nameIn(path: Path): Option[String] = {
    val fileName = path.getFileName.toString
    val end = fileName.indexOf(HostStore.Separator)
    Option.when(end > 0)(fileName.substring(0, end))
  }

  def parse(fileName: String): Option[KeptFile] = fileName.split(HostStore.Separator, -1) match {
    case Array(name, length, crc, mtime) =>
      def known = Option.when(crc.nonEmpty)(java.lang.Long.parseLong(crc, 16))
      try Some(KeptFile(name, length.toLong, known, mtime.toLong))
      catch { case _: NumberFormatException => None } // not a file of this store
    case _ => None
  }
}
