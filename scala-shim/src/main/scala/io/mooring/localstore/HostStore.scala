package io.mooring.localstore

import java.io.{FileInputStream, FileNotFoundException, IOException, OutputStream}
import java.nio.channels.{Channels, ClosedByInterruptException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file._
import java.nio.file.attribute.{FileTime, PosixFilePermissions}
import java.security.MessageDigest
import java.util.UUID
import java.util.concurrent.{LinkedBlockingQueue, RejectedExecutionException, ThreadPoolExecutor, TimeUnit}
import java.util.zip.CRC32C

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Using}
import scala.util.control.NonFatal

import io.mooring.common.{Daemon, LastUsed, Log}
import org.apache.hadoop.fs.{Path => RemotePath}
import org.rocksdb.{Options, RocksDB, RocksDBException, SstFileReader, Status}

/**
 * The files of state stores that this host keeps, for all executors of the host, longer than the application runs.
 *
 * Only files that never change are kept: their names contain a unique id. A kept file is one directory entry. Its name tells length,
 * checksum and modification time, so the file appears complete or not at all. The name of a linked file has no checksum: computing it
 * would read every byte while the commit is uploaded. SST files have checksums of their blocks instead. Where a catalogue is kept, an
 * uploaded SST file of a checkpoint of format v2 is read for its checksum all the same (`SharedFileSystem.note`).
 *
 * The checkpoint stays the truth. A file that is missing or wrong here is fetched from the checkpoint. A failure here is logged once for
 * each kind, and has no other effect. Safe for several threads and several executors. Without it, all state is fetched from the checkpoint.
 *
 *     <root>/<checkpoint key>/OWNER                             the checkpoint's location, for `mooring gc`
 *     <root>/<checkpoint key>/<operator>/<partition>/<store>/<name>~<length>~<crc32c, or nothing>~<mtime>
 */
final class HostStore(val root: Path) {
  import HostStore._

  /** The bytes that the store leaves free on its disk: 1 GiB, or a twentieth of the disk if that is less. */
  lazy val floor: Long = math.min(1L << 30, root.toFile.getTotalSpace / 20)

  /** How many bytes are missing to the floor of free space; 0 when there is enough. */
  def lackOfRoom(): Long = math.max(0, floor - usableSpace)

  /** The free bytes of the disk, also when somebody has deleted the store's directory: the next file makes it again. */
  private def usableSpace: Long = {
    val bytes = root.toFile.getUsableSpace
    if (bytes > 0 || Files.exists(root)) bytes
    else Iterator.iterate(root)(_.getParent).takeWhile(_ != null).find(Files.exists(_)).fold(0L)(_.toFile.getUsableSpace)
  }

  private[localstore] def sayFull(): Unit =
    Log.once("local-store-full", s"the disk of the local store $root has less than ${floor >> 20} " +
      "MiB free: nothing more is kept until there is room; state that is not kept is fetched from the checkpoint")

  /** Logs, at the start of an executor, what would be logged later in any case. `open` is the directory of its open state stores. */
  def sayWhatIsWrong(open: Path): Unit = {
    if (lackOfRoom() > 0) sayFull()
    val (kept, used) = (Files.getFileStore(root), Files.getFileStore(open))
    if (kept != used) sayCopied(s"$kept and $used")
  }

  private val filesByDirectory = new LastUsed[Path, HostStoreFiles](LastUsed.Stores)

  // Removing large files takes time, and no commit should wait for that.
  private val tidying = new ThreadPoolExecutor(1, 1, 10, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable],
    Daemon.factory("mooring-host-store-tidy"))
  tidying.allowCoreThreadTimeOut(true)

  /** Runs `work` in the background, unless the executor ends before. `what` names the work in the log. */
  def soon(what: String)(work: => Unit): Unit =
    try tidying.execute(() => attempt(what)(work))
    catch { case _: RejectedExecutionException => } // closed: the next executor that opens the store removes the files

  /**
   * The name of the volume that the store lies on: a random one, which the first executor gives to it, in a file of the store. Left with the
   * reason where the file can be neither read nor made.
   */
  def volume: Either[String, String] =
    try {
      val file = root.resolve(VolumeFile)
      if (!Files.exists(file)) nameVolume(file)
      Some(Files.readString(file).trim).filter(_.matches(VolumeName)).toRight(s"$file names no volume: remove it")
    } catch { case e: IOException => Left(s"the volume of the local store has no name ($e)") }

  /** Another executor may do the same. The file appears as a whole, and the first one stays. */
  private def nameVolume(file: Path): Unit = {
    val temporary = Files.createTempFile(root, TemporaryPrefix, "", OwnerOnlyFile)
    val name = s"volume-${UUID.randomUUID().toString.take(8)}\n"
    try {
      Files.writeString(temporary, name)
      try Files.createLink(file, temporary)
      catch { // a file system without links
        case e @ (_: UnsupportedOperationException | _: FileSystemException) if !e.isInstanceOf[FileAlreadyExistsException] =>
          Files.writeString(file, name, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)
      }
      ()
    } catch { case _: FileAlreadyExistsException => } // the other executor was first
    finally { Files.deleteIfExists(temporary); () }
  }

  /** Ends the background thread. */
  def close(): Unit = { tidying.shutdownNow(); () }

  /**
   * The kept files of the state store that the checkpoint has in `storeDir`; one object for each store of a JVM. None where `storeDir` has
   * not the form `<checkpoint>/state/<operator>/<partition>[/<store>]`.
   */
  def filesOf(storeDir: RemotePath): Option[HostStoreFiles] = storeDir.toUri.toString match {
    case StoreDir(checkpoint, operator, partition, store) =>
      val owner = root.resolve(keyOf(checkpoint))
      val dir = owner.resolve(s"$operator/$partition/${Option(store).getOrElse("default")}")
      Some(filesByDirectory.getOrMake(dir)(new HostStoreFiles(this, checkpoint, owner, dir)))
    case _ => None
  }
}

object HostStore {
  val Separator = "~"
  val TemporaryPrefix = ".writing-"
  val UsedMark = ".used"
  val OwnerFile = "OWNER"
  private val VolumeFile = ".volume"
  private val VolumeName = "[A-Za-z0-9._-]+"

  /** A file up to this length, in bytes, is held in memory while it is written. */
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

  /** Whether a name is used for one content only. Not so `5.zip` of checkpoint format v1, which a repeated batch writes again. */
  def isUniqueName(name: String): Boolean = isOfVersion(name) || UniqueRocksDBFile.matches(name)

  /** Whether such a file is an archive, a changelog, or the checksum of one. */
  def isOfVersion(name: String): Boolean = UniqueVersionFile.matches(name)

  /**
   * The archives of versions before this one, and their checksums. Spark's maintenance removes old archives, here too. But it runs once a
   * minute: applications of a few seconds have none, and would keep all archives.
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

  /**
   * Opens the store at `root`, and makes the directory if it is missing, closed to other users. None, with a log line, when that fails.
   *
   * @param isOnOwnVolume the store lies on a volume of this executor's own: Kubernetes opens it to the pod's group at each mount (`fsGroup`)
   */
  def open(root: Path, isOnOwnVolume: Boolean): Option[HostStore] =
    try {
      if (!Files.exists(root, LinkOption.NOFOLLOW_LINKS)) Files.createDirectories(root, OwnerOnlyDirectory)
      if (!Files.isDirectory(root, LinkOption.NOFOLLOW_LINKS)) throw new IOException("it is not a directory")
      val me = Files.createTempFile(root, TemporaryPrefix, "", OwnerOnlyFile) // also shows that the directory is writable
      try if (Files.getOwner(root) != Files.getOwner(me)) throw new IOException(s"it belongs to ${Files.getOwner(root)}")
      finally Files.deleteIfExists(me)
      closeToOthers(root, isOnOwnVolume)
      Some(new HostStore(root))
    } catch {
      case NonFatal(e) =>
        Log.failed("local-store-closed", e)(
          s"the local store $root can not be used ($e): state is fetched from the checkpoint as in stock Spark")
        None
    }

  /** Closes an empty directory. IOException for a directory that holds files and is open to other users, as others may have written these files. */
  private def closeToOthers(root: Path, mayBeOpenToGroup: Boolean): Unit = {
    val closed = PosixFilePermissions.fromString("rwx------")
    val permissions = Files.getPosixFilePermissions(root)
    if (permissions != closed) {
      val isOpenToGroupOnly = permissions.asScala.forall(!_.name.startsWith("OTHERS"))
      if (!(mayBeOpenToGroup && isOpenToGroupOnly) && Using.resource(Files.newDirectoryStream(root))(_.iterator().hasNext))
        throw new IOException("it holds files and is open to other users; name an empty directory, or close it (chmod 700)")
      Files.setPosixFilePermissions(root, closed)
    }
  }

  /** The CRC32C of a file. Read in small pieces: for larger ones Java takes memory outside of the heap. */
  def checksum(file: Path): Long = Using.resource(new FileInputStream(file.toFile)) { in =>
    val crc = new CRC32C
    val buffer = new Array[Byte](Piece)
    Iterator.continually(in.read(buffer)).takeWhile(_ >= 0).foreach(crc.update(buffer, 0, _))
    crc.getValue
  }

  /** Whether the file still has the content that was kept, by its checksum. */
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
      case Failure(e) => throw e // the file could not be read, which tells nothing about its content
    }
  }

  private[localstore] def mtime(file: Path): Long = nanos(Files.getLastModifiedTime(file))

  private[localstore] def nanos(time: FileTime): Long = time.to(TimeUnit.NANOSECONDS)

  /**
   * Makes a file and opens it, in one step. A file that is made first and then opened for truncation counts for ext4 as replaced, and is
   * flushed to the disk when it is closed.
   */
  def create(file: Path): OutputStream = Channels.newOutputStream(
    Files.newByteChannel(file, java.util.Set.of(StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE), OwnerOnlyFile))

  /** Writes in small pieces: for larger ones Java takes memory outside of the heap. */
  def writeTo(out: OutputStream, bytes: Array[Byte]): Unit =
    bytes.indices.by(Piece).foreach(start => out.write(bytes, start, math.min(Piece, bytes.length - start)))

  /** Whether a copy may succeed where a hard link has failed: mostly as the files are on two file systems. */
  private[localstore] def needsCopy(e: Throwable): Boolean = e match {
    case _: FileAlreadyExistsException | _: NoSuchFileException | _: AccessDeniedException => false
    case _ => e.isInstanceOf[UnsupportedOperationException] || e.isInstanceOf[FileSystemException]
  }

  private[localstore] def sayCopied(why: String): Unit = Log.once("local-store-copies",
    s"the local store and Spark's local directories lie on different file systems ($why): files are copied instead of " +
      "linked, which costs time and room; put both on one, by spark.mooring.local.store.dir or spark.local.dir")

  /** Runs `body`. A failure is logged once for each kind, and ignored. */
  private[localstore] def attempt(what: String)(body: => Unit): Unit = attemptOr(what, ())(body)

  /** The result of `body`, or `otherwise` when it fails. A failure is logged once for each kind. */
  private[mooring] def attemptOr[T](what: String, otherwise: T)(body: => T): T =
    try body
    catch {
      case e: ClosedByInterruptException => throw e // the task was killed
      case _: FileNotFoundException | _: NoSuchFileException => otherwise // another executor has removed the file
      case NonFatal(e) =>
        Log.failed("local-store-" + e.getClass.getName, e)(s"the local store could not $what ($e): " +
          "state that is not kept here is fetched from the checkpoint when it is needed")
        otherwise
    }
}
