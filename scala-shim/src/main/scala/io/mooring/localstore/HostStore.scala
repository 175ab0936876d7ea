package io.mooring.localstore

import java.io.{FileInputStream, FileNotFoundException, IOException, OutputStream}
import java.nio.channels.{Channels, ClosedByInterruptException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file._
import java.nio.file.attribute.{FileTime, PosixFilePermissions}
import java.security.MessageDigest
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, RejectedExecutionException, ThreadPoolExecutor, TimeUnit}
import java.util.zip.CRC32C

import scala.util.{Failure, Success, Using}
import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log}
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

  private[localstore] def sayFull(): Unit =
    Log.once("local-store-full", s"the disk of the local store $root has less than ${floor >> 20} " +
      "MiB free: nothing more is kept until there is room; state that is not kept is fetched from the checkpoint")

  /** At the start of an executor: what would be said sooner or later. `open` is where its state stores are open. */
  def sayWhatIsWrong(open: Path): Unit = {
    if (lackOfRoom() > 0) sayFull()
    val (kept, used) = (Files.getFileStore(root), Files.getFileStore(open))
    if (kept != used) sayCopied(s"$kept and $used")
  }

  private val shelves = new ConcurrentHashMap[Path, HostStoreFiles]()

  // What is removed may be large, which takes time; nobody's commit is to wait for that.
  private val tidying = new ThreadPoolExecutor(1, 1, 10, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable],
    Daemon.factory("mooring-host-store-tidy"))
  tidying.allowCoreThreadTimeOut(true)

  /** Does it soon, unless the executor ends before; `what` it is, for the log. */
  def soon(what: String)(work: => Unit): Unit =
    try tidying.execute(() => attempt(what)(work))
    catch { case _: RejectedExecutionException => } // closed: whoever opens the store next removes it

  /** Ends what is done in the background. */
  def close(): Unit = { tidying.shutdownNow(); () }

  /** The place of one state store's files, one object for each in a JVM, or None where `storeDir` is not one that Spark lays out. */
  def shelf(storeDir: RemotePath): Option[HostStoreFiles] = storeDir.toUri.toString match {
    case StoreDir(checkpoint, operator, partition, store) =>
      val owner = root.resolve(keyOf(checkpoint))
      val dir = owner.resolve(s"$operator/$partition/${Option(store).getOrElse("default")}")
      Some(shelves.computeIfAbsent(dir, _ => new HostStoreFiles(this, checkpoint, owner, dir)))
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

  private[localstore] val StoreDir = """(.*)/state/(\d+)/(\d+)(?:/([^/]+))?""".r

  private[localstore] val UniqueId = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
  private val UniqueVersionFile = s"""\\d+_$UniqueId\\.(zip|changelog)(\\.crc)?""".r
  private val UniqueChangelog = s"""(\\d+)_$UniqueId\\.changelog(?:\\.crc)?""".r
  private val UniqueArchive = s"""(\\d+)_$UniqueId\\.zip(?:\\.crc)?""".r
  private val UniqueRocksDBFile = s""".+-$UniqueId\\.(sst|log)""".r

  /** Whether a file's name is its own for ever. `5.zip` of format v1 is not: a retried batch writes it again. */
  def isUniqueName(name: String): Boolean = isOfVersion(name) || UniqueRocksDBFile.matches(name)

  /** Of those: an archive, a changelog, or the checksum of one. */
  def isOfVersion(name: String): Boolean = UniqueVersionFile.matches(name)

  /**
   * Of these files the archives, and their checksums, of older versions. Spark's maintenance removes archives, here as well.
   * It runs once a minute: an application of a few seconds has none, and a row of such applications would keep all archives.
   */
  def archivesBefore(version: Long, names: Set[String]): Set[String] = names.filter {
    case UniqueArchive(of) => of.toLongOption.exists(_ < version)
    case _ => false
  }

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
        Log.failed("local-store-closed", e)(
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

  private[localstore] def isProved(file: Path, kept: KeptFile): Boolean = kept.crc match {
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

  private[localstore] def mtime(file: Path): Long = nanos(Files.getLastModifiedTime(file))

  private[localstore] def nanos(time: FileTime): Long = time.to(TimeUnit.NANOSECONDS)

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
  private[localstore] def needsCopy(e: Throwable): Boolean = e match {
    case _: FileAlreadyExistsException | _: NoSuchFileException | _: AccessDeniedException => false
    case _ => e.isInstanceOf[UnsupportedOperationException] || e.isInstanceOf[FileSystemException]
  }

  private[localstore] def sayCopied(why: String): Unit = Log.once("local-store-copies",
    s"the local store and Spark's local directories lie on different file systems ($why): files are copied instead of " +
      "linked, which costs time and room; put both on one, by spark.mooring.local.store.dir or spark.local.dir")

  /** Whatever the store can not do is said once for each kind of failure, and counts as not done. */
  private[localstore] def attempt(what: String)(body: => Unit): Unit = attemptOr(what, ())(body)

  private[mooring] def attemptOr[T](what: String, otherwise: T)(body: => T): T =
    try body
    catch {
      case e: ClosedByInterruptException => throw e // the task was killed; nothing is wrong here
      case _: FileNotFoundException | _: NoSuchFileException => otherwise // another executor was faster
      case NonFatal(e) =>
        Log.failed("local-store-" + e.getClass.getName, e)(s"the local store could not $what ($e): " +
          "state that is not kept here is fetched from the checkpoint when it is needed")
        otherwise
    }
}
