package io.mooring

import java.io.{FileInputStream, FileNotFoundException, InputStream, IOException, OutputStream}
import java.nio.channels.{Channels, ClosedByInterruptException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file._
import java.nio.file.attribute.{BasicFileAttributes, FileTime, PosixFilePermissions}
import java.security.MessageDigest
import java.util.UUID
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue, LinkedBlockingQueue, RejectedExecutionException, ThreadPoolExecutor, TimeUnit}
import java.util.zip.{CheckedOutputStream, CRC32C}

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Using}
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{Path => RemotePath}
import org.rocksdb.{Options, RocksDB, RocksDBException, SstFileReader, Status}

/**
 * The files of state stores that this host keeps, for all executors of the host and beyond the application.
 *
 * Only files that never change are kept: each carries a unique id in its name. A kept file is one directory entry
 * whose own name tells length, checksum and modification time, so it appears whole or not at all. A linked file's name
 * tells no checksum: to take it, every byte would be read once more just while its commit is uploaded. SST files carry
 * those of their blocks. The checkpoint stays the truth: whatever is missing or wrong here is a miss, and whatever goes
 * wrong here is said once and otherwise costs nothing.
 *
 *     <root>/<checkpoint key>/OWNER                             the checkpoint's location, for `mooring gc`
 *     <root>/<checkpoint key>/<operator>/<partition>/<store>/<name>~<length>~<crc32c, or nothing>~<mtime>
 */
final class HostStore(val root: Path) {
  import HostStore._

  /** What the store leaves free on its disk, in bytes, for those who share the disk: 1 GiB, or a twentieth if less. */
  lazy val floor: Long = math.min(1L << 30, root.toFile.getTotalSpace / 20)

  /** How far the disk's free space lies below the floor, in bytes; 0 when all is well. */
  def lackOfRoom(): Long = math.max(0, floor - root.toFile.getUsableSpace)

  private val shelves = new ConcurrentHashMap[Path, HostShelf]()

  // What is removed may be large, which takes time; nobody's commit is to wait for that.
  private val tidying = new ThreadPoolExecutor(1, 1, 10, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable],
    Daemon.factory("mooring-host-store-tidy"))
  tidying.allowCoreThreadTimeOut(true)

  /** Does it soon, unless the executor ends before. */
  def tidy(work: => Unit): Unit =
    try tidying.execute(() => attempt("remove what is not needed")(work))
    catch { case _: RejectedExecutionException => } // closed: whoever opens the store next removes it

  /** Ends what is done in the background. */
  def close(): Unit = { tidying.shutdownNow(); () }

  /** The place of one state store's files, one object for each in a JVM, or None where `storeDir` is not one that Spark lays out. */
  def shelf(storeDir: RemotePath): Option[HostShelf] = storeDir.toUri.toString match {
    case StoreDir(checkpoint, operator, partition, store) =>
      val owner = root.resolve(keyOf(checkpoint))
      val dir = owner.resolve(s"$operator/$partition/${Option(store).getOrElse("default")}")
      Some(shelves.computeIfAbsent(dir, _ => new HostShelf(this, checkpoint, owner, dir)))
    case _ => None
  }
}

/** The kept files of one state store. Safe for several executors of one host at once. */
final class HostShelf(hostStore: HostStore, checkpoint: String, ownerDir: Path, dir: Path) {
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
        sayCopied(e)
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
    listing = listing.map(_ => new Listing)
    kept.map(Files.size)
  }

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

  /** Lets go of these files. */
  def forget(names: Set[String]): Unit = attempt("remove what is not needed") {
    list("").foreach { case (path, kept) => if (names(kept.name)) Files.deleteIfExists(path) }
  }

  /** Lets go, soon, of what is superseded: by what is kept then. */
  def tidy(superseded: Set[String] => Set[String]): Unit = hostStore.tidy {
    val gone = superseded(attemptOr("list its files", Set.empty[String])(kept.keySet))
    if (gone.nonEmpty) forget(gone)
  }

  private def hasRoom: Boolean = hostStore.lackOfRoom() == 0 || {
    Say.once("local-store-full", s"the disk of the local store ${hostStore.root} has less than ${hostStore.floor >> 20} " +
      "MiB free: nothing more is kept until there is room; state that is not kept is fetched from the checkpoint")
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
        Say.warn(s"dropped ${path.getFileName} of $checkpoint: its content is not what was kept; fetched from the checkpoint")
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
          sayCopied(e)
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

  /** The store is opened from now on: what is asked for until `opened` is looked up in one listing. */
  def opening(): Unit = {
    isOurs = true
    complete() // of a version that was given up in the middle
    listing = Some(new Listing)
  }
  def opened(): Unit = listing = None

  // An opening asks for some ten names. What other executors keep or remove meanwhile is at worst a miss.
  private final class Listing { lazy val names: Map[String, Seq[(Path, KeptFile)]] = list("").groupBy(_._2.name) }
  @volatile private var listing: Option[Listing] = None

  private def find(name: String): Seq[(Path, KeptFile)] =
    listing.fold(list(name + Separator))(_.names.getOrElse(name, Nil))

  /** The kept files whose own names begin so. */
  private def list(start: String): Seq[(Path, KeptFile)] =
    try Using.resource(Files.newDirectoryStream(dir, (p: Path) => p.getFileName.toString.startsWith(start))) {
      _.asScala.toSeq.flatMap(p => KeptFile.parse(p.getFileName.toString).map(p -> _))
    } catch {
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

  def parse(fileName: String): Option[KeptFile] = fileName.split(HostStore.Separator, -1) match {
    case Array(name, length, crc, mtime) =>
      def known = Option.when(crc.nonEmpty)(java.lang.Long.parseLong(crc, 16))
      try Some(KeptFile(name, length.toLong, known, mtime.toLong))
      catch { case _: NumberFormatException => None } // somebody else's file
    case _ => None
  }
}

object HostStore {
  val Separator = "~"
  val TemporaryPrefix = ".writing-"
  val UsedMark = ".used"
  val OwnerFile = "OWNER"

  /** Of what is written to the checkpoint, a file up to this length is held in memory until it is complete, in bytes. */
  val SmallFile: Int = 1 << 20
  val OwnerOnlyDirectory = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))
  val OwnerOnlyFile = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))

  private val Piece = 8192

  private[mooring] val StoreDir = """(.*)/state/(\d+)/(\d+)(?:/([^/]+))?""".r

  private val UniqueId = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
  private val UniqueVersionFile = s"""\\d+_$UniqueId\\.(zip|changelog)(\\.crc)?""".r
  private val UniqueChangelog = s"""(\\d+)_$UniqueId\\.changelog(?:\\.crc)?""".r
  private val UniqueRocksDBFile = s""".+-$UniqueId\\.(sst|log)""".r

  /** Whether a file's name is its own for ever. `5.zip` of format v1 is not: a retried batch writes it again. */
  def isUniqueName(name: String): Boolean = isOfVersion(name) || UniqueRocksDBFile.matches(name)

  /** Of those: an archive, a changelog, or the checksum of one. */
  def isOfVersion(name: String): Boolean = UniqueVersionFile.matches(name)

  /** The version of a changelog, or of the checksum of one. */
  def versionOfChangelog(name: String): Option[Long] = name match {
    case UniqueChangelog(version) => version.toLongOption
    case _ => None
  }

  def keyOf(checkpoint: String): String =
    MessageDigest.getInstance("SHA-256").digest(checkpoint.getBytes(UTF_8)).take(16).map(b => f"$b%02x").mkString

  /** Opens the store at `root`, made when missing, closed to other users; None, said once, where that fails. */
  def open(root: Path): Option[HostStore] =
    try {
      if (!Files.exists(root, LinkOption.NOFOLLOW_LINKS)) Files.createDirectories(root, OwnerOnlyDirectory)
      if (!Files.isDirectory(root, LinkOption.NOFOLLOW_LINKS)) throw new IOException("it is not a directory")
      val me = Files.createTempFile(root, TemporaryPrefix, "", OwnerOnlyFile) // shows as well that we may write
      try if (Files.getOwner(root) != Files.getOwner(me)) throw new IOException(s"it belongs to ${Files.getOwner(root)}")
      finally Files.deleteIfExists(me)
      closeToOthers(root)
      Some(new HostStore(root))
    } catch {
      case NonFatal(e) =>
        Say.once("local-store-closed",
          s"the local store $root can not be used ($e): state is fetched from the checkpoint as in stock Spark")
        None
    }

  /** An empty directory is closed; one that holds files and is open to others may be somebody's, and is left as it is. */
  private def closeToOthers(root: Path): Unit = {
    val closed = PosixFilePermissions.fromString("rwx------")
    if (Files.getPosixFilePermissions(root) != closed) {
      if (Using.resource(Files.newDirectoryStream(root))(_.iterator().hasNext))
        throw new IOException("it holds files and is open to other users; name an empty directory, or close it (chmod 700)")
      Files.setPosixFilePermissions(root, closed)
    }
  }

  /** Read in pieces for which Java takes no memory outside of the heap. */
  def checksum(file: Path): Long = Using.resource(new FileInputStream(file.toFile)) { in =>
    val crc = new CRC32C
    val buffer = new Array[Byte](Piece)
    Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(crc.update(buffer, 0, _))
    crc.getValue
  }

  private[mooring] def isProved(file: Path, kept: KeptFile): Boolean = kept.crc match {
    case Some(crc) => checksum(file) == crc
    case None => kept.name.endsWith(".sst") && hasGoodBlocks(file)
  }

  private def hasGoodBlocks(sst: Path): Boolean = {
    RocksDB.loadLibrary()
    Using.Manager { use =>
      val reader = use(new SstFileReader(use(new Options)))
      reader.open(sst.toString)
      reader.verifyChecksum()
    } match {
      case Success(_) => true
      case Failure(e: RocksDBException) if Option(e.getStatus).exists(_.getCode == Status.Code.Corruption) => false
      case Failure(e) => throw e // it could not be read: that says nothing of its content
    }
  }

  private[mooring] def mtime(file: Path): Long = nanos(Files.getLastModifiedTime(file))

  private[mooring] def nanos(time: FileTime): Long = time.to(TimeUnit.NANOSECONDS)

  /**
   * Makes a file and opens it, in one step: a file that is opened for truncation after it was made counts for ext4 as one
   * whose content is replaced, and is written to the disk when it is closed.
   */
  def create(file: Path): OutputStream = Channels.newOutputStream(
    Files.newByteChannel(file, java.util.Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), OwnerOnlyFile))

  /** In pieces for which Java takes no memory outside of the heap. */
  def writeTo(out: OutputStream, bytes: Array[Byte]): Unit =
    bytes.indices.by(Piece).foreach(start => out.write(bytes, start, math.min(Piece, bytes.length - start)))

  /** Whether a link failed in a way that a copy may not: above all, as there is no link from one file system to another. */
  private[mooring] def needsCopy(e: Throwable): Boolean = e match {
    case _: FileAlreadyExistsException | _: NoSuchFileException | _: AccessDeniedException => false
    case _ => e.isInstanceOf[UnsupportedOperationException] || e.isInstanceOf[FileSystemException]
  }

  private[mooring] def sayCopied(noLink: Throwable): Unit = Say.once("local-store-copies",
    s"the local store and Spark's local directories lie on different file systems ($noLink): files are copied instead of " +
      "linked, which costs time and room")

  /** Whatever the store can not do is said once for each kind of failure, and counts as not done. */
  private[mooring] def attempt(what: String)(body: => Unit): Unit = attemptOr(what, ())(body)

  private[mooring] def attemptOr[T](what: String, otherwise: T)(body: => T): T =
    try body
    catch {
      case e: ClosedByInterruptException => throw e // the task was killed; nothing is wrong here
      case _: FileNotFoundException | _: NoSuchFileException => otherwise // another executor was faster
      case NonFatal(e) =>
        Say.once("local-store-" + e.getClass.getName, s"the local store could not $what ($e): " +
          "state that is not kept here is fetched from the checkpoint when it is needed")
        otherwise
    }
}
