package io.mooring.checkpoint

import java.io.{ByteArrayOutputStream, FileNotFoundException}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.util.Using

import io.mooring.common.{InMemoryFile, Names}
import io.mooring.drain.StartRules
import io.mooring.election.LeaderOnlyWrites
import io.mooring.localstore.{ArchiveStamp, HostStoreFiles, HostStore, HostStores, KeptStream, LocalCopy, LocalReads, NotedStream, StoreReads, StoreWrites}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.spark.SparkEnv
import org.apache.spark.shims.Capability
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.execution.streaming.state.shims.{ClosableFiles, OfflineTools, StreamShims}

/**
 * The checkpoint's file manager: the one that Spark would use without Mooring (`stock`), with these additions:
 *
 *  - `offsets/N` always names Spark's own provider, so that stock Spark can read the checkpoint. A running stream with Mooring reads the
 *    name of Mooring's provider there.
 *  - Uniquely named files of a state store (snapshot archives, changelogs, their checksums) are kept on the host when they are written,
 *    and taken from the host when they are read.
 *  - A snapshot archive is read whichever Spark has written it (`ArchiveStamp`).
 *  - Where a catalogue is kept, length and checksum of each such archive and changelog are noted for it (`StoreWrites`).
 *  - Spark's own tools get the format of the checkpoint's state when they open its log of commits (`CommitsOfTools`).
 *  - A stream whose checkpoint is drained or being restored is refused, or reads another watermark (`StartRules`).
 *  - A driver that has lost its leadership writes no entry of a log (`LeaderOnlyWrites`).
 *
 * Spark makes one object for each log and each state store. Threads: the stream's thread for logs; tasks and Spark's maintenance for
 * state stores; the thread of a tool. Depends on `CheckpointFileManager` of Spark 4.0 to 4.3. Without it, checkpoints are as in stock
 * Spark, and hosts keep no changelogs and archives.
 */
class CheckpointFiles(path: Path, conf: Configuration) extends ClosableFiles {
  protected val stock: CheckpointFileManager = new StartupReadCache(CheckpointFileManager.create(path, CheckpointFiles.stockConf(conf)))
  private val hostFiles = HostStores.ofThisExecutor.flatMap(_.filesOf(path))
  private lazy val reads = StoreReads.of(path)
  private lazy val localFiles = FileSystem.getLocal(conf).getRaw
  @volatile private var hasFiles = false // whether a file of the directory was opened, so that the directory exists
  private val commits = Option.when(isLog(path, "commits") && OfflineTools.areOnThread)(new CommitsOfTools(path, stock))
  commits.foreach(_.setFormatForTool(Option(conf.get(StreamShims.FormatKey))))

  override def createAtomic(file: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    if (!overwriteIfPossible && isLogEntry(file)) LeaderOnlyWrites.check(file.toString)
    // Here, as a query may be refused that has started already.
    if (isOffsets(file) && isOfStream) StartRules.checkMayStart(file.getParent.getParent.toString)
    val out =
      try stock.createAtomic(file, overwriteIfPossible)
      catch {
        case _: FileNotFoundException if hasFiles && file.getParent == path =>
          // The directory was removed meanwhile, which `exists` has hidden.
          hasFiles = false
          stock.mkdirs(path)
          stock.createAtomic(file, overwriteIfPossible)
      }
    if (isOffsets(file)) new StockNameStream(out)
    else if (commits.exists(_.isOfFormat2)) new Format2Stream(out)
    else withStamp(file, noted(file, keptOnHost(file).fold(out)(s => new KeptStream(out, new LocalCopy(s, file.getName)))))
  }

  private def withStamp(file: Path, out: CancellableFSDataOutputStream) =
    if (ArchiveStamp.isToChange(file.getName)) new ArchiveStream(file.getName, out) else out

  private def noted(file: Path, out: CancellableFSDataOutputStream) =
    if (!HostStore.isUniqueName(file.getName) || file.getName.endsWith(".crc")) out
    else StoreWrites.of(path).fold(out)(writes => new NotedStream(out, writes.add(file.getName, _)))

  override def open(file: Path): FSDataInputStream = {
    val opened =
      if (isLog(file) && isOfStream) asThisStreamReads(file)
      else keptOnHost(file).flatMap(s => openLocally(s, file).orElse(fetchAndOpenLocally(s, file)))
        .getOrElse(reads.counted(file.getName, stock.open(file)))
    hasFiles ||= file.getParent == path
    if (file.getName.endsWith(".zip")) ArchiveStamp.asThisJvmReads(file.getName, opened) else opened
  }

  override def exists(file: Path): Boolean =
    hasFiles && file == path || keptOnHost(file).exists(_.has(file.getName)) || stock.exists(file)

  override def delete(file: Path): Unit = {
    stock.delete(file)
    keptOnHost(file).foreach(_.forget(file.getName))
  }

  override def list(dir: Path, filter: PathFilter): Array[FileStatus] = {
    if (isLog(dir, "offsets") && isOfStream) StartRules.checkMayStart(dir.getParent.toString)
    val found = stock.list(dir, filter)
    commits.filter(_ => dir == path).fold(found)(_.withoutSkipped(found))
  }
  override def mkdirs(dir: Path): Unit = stock.mkdirs(dir)
  override def isLocal: Boolean = stock.isLocal
  override def createCheckpointDirectory(): Path = stock.createCheckpointDirectory()

  /**
   * Whether the file is an entry of a log: of offsets, commits, a source or a file sink. Such entries make a batch count, and are written
   * once.
   */
  private def isLogEntry(file: Path) = file.getName.stripSuffix(".compact").forall(_.isDigit)

  private def isLog(file: Path) = isOffsets(file) || file.getParent != null && file.getParent.getName == "commits"
  private def isLog(dir: Path, name: String) = dir.getName == name && dir.getParent != null

  /** Whether the caller is a running stream that reads its own log. The stream's thread may also run a tool, as in `foreachBatch`. */
  private def isOfStream = StreamShims.onStreamThread && !OfflineTools.areOnThread

  private def isOffsets(file: Path) = file.getParent != null && file.getParent.getName == "offsets"

  private def keptOnHost(file: Path) = hostFiles.filter(_ => HostStore.isUniqueName(file.getName))

  private def openLocally(hostFiles: HostStoreFiles, file: Path): Option[FSDataInputStream] =
    LocalReads.open(hostFiles, file.getName, reads, localFiles)

  /** Fetches a changelog to the host, and opens it there. A store that is opened reads each of its changelogs up to three times. */
  private def fetchAndOpenLocally(hostFiles: HostStoreFiles, file: Path): Option[FSDataInputStream] =
    if (!CheckpointFiles.isOfChangelog(file.getName)) None
    else {
      val remote = reads.counted(file.getName, stock.open(file)) // FileNotFoundException passes through to Spark
      Using.resource(remote)(in => HostStore.attemptOr[Option[Long]](s"keep ${file.getName}", None)(hostFiles.keepStream(file.getName, in)))
        .flatMap(_ => openLocally(hostFiles, file))
    }

  /** Opens an entry of a log with the name of Mooring's provider, and with another watermark where `StartRules` has one. */
  private def asThisStreamReads(file: Path): FSDataInputStream = Using.resource(stock.open(file)) { stream =>
    val read = stream.readAllBytes()
    val checkpoint = file.getParent.getParent.toString
    val named =
      if (isOffsets(file) && !CheckpointFiles.runsOnStock(checkpoint))
        CheckpointFiles.replace(read, StreamShims.StockRocksDB, Names.Provider)
      else read
    val watermark = StartRules.watermarkOverride(checkpoint, file.getName)
    new FSDataInputStream(new InMemoryFile(watermark.fold(named)(CheckpointFiles.withWatermark(named, _))))
  }
}

object CheckpointFiles {
  private val onStock = ConcurrentHashMap.newKeySet[String]() // checkpoints whose queries run on Spark's own provider

  /** Sets whether the query of this checkpoint runs on Spark's own provider although Mooring's is set. Called before its logs are read. */
  private[mooring] def runOnStock(checkpoint: String, isOnStock: Boolean): Unit = {
    if (isOnStock) onStock.add(checkpoint) else onStock.remove(checkpoint)
    ()
  }

  private def runsOnStock(checkpoint: String): Boolean = onStock.contains(checkpoint) || !Capability.isOurProviderUsable

  /** Whether the file is a changelog, or the checksum of a changelog. */
  private def isOfChangelog(name: String): Boolean = name.stripSuffix(".crc").endsWith(".changelog")

  /** A copy of the configuration with the user's own file manager; without any, as in stock Spark, when the user has chosen none. */
  private def stockConf(conf: Configuration): Configuration = {
    val copy = new Configuration(conf)
    Option(SparkEnv.get).flatMap(_.conf.getOption(Names.UsersFileManager)) match {
      case Some(users) => copy.set(StreamShims.FileManagerKey, users)
      case None => copy.unset(StreamShims.FileManagerKey)
    }
    copy
  }

  /** The entry of the offset or the commit log with this watermark (ms) in place of its own. */
  def withWatermark(entry: Array[Byte], ms: Long): Array[Byte] =
    new String(entry, UTF_8).replaceAll(""""(batchWatermarkMs|nextBatchWatermarkMs)":\d+""", s""""$$1":$ms""").getBytes(UTF_8)

  /** Replaces one quoted JSON string by another. */
  def replace(bytes: Array[Byte], from: String, to: String): Array[Byte] =
    new String(bytes, UTF_8).replace(s""""$from"""", s""""$to"""").getBytes(UTF_8)
}

/** Writes an archive as stock Spark does. */
private final class ArchiveStream(name: String, out: CancellableFSDataOutputStream) extends EntryStream(out, new ByteArrayOutputStream) {
  override protected def asWritten(archive: Array[Byte]): Array[Byte] = ArchiveStamp.asStockWrites(name, archive)
}

/** Writes an entry of the offset log with the name of Spark's own provider. */
private final class StockNameStream(out: CancellableFSDataOutputStream) extends EntryStream(out, new ByteArrayOutputStream) {
  override protected def asWritten(entry: Array[Byte]): Array[Byte] =
    CheckpointFiles.replace(entry, Names.Provider, StreamShims.StockRocksDB)
}
