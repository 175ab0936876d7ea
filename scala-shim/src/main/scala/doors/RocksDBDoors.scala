package org.apache.spark.sql.execution.streaming.state.mooring

import java.io.File
import java.lang.reflect.InvocationTargetException
import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.locks.ReentrantLock

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.util.Utils

/**
 * Stock RocksDB's provider with the three doors that Spark 4.2 leaves open (`createRocksDB`,
 * `RocksDB.createFileManager`, `RocksDBFileManager.getFileSystem`) turned into plain methods.
 *
 * It lives in this package because `createRocksDB` names `RocksDBEventForwarder`, which is private to `state`.
 */
abstract class RocksDBProviderDoor extends RocksDBStateStoreProvider {

  /** Makes the watcher of one store; `storeDir` is where the checkpoint keeps the store's files. */
  protected def watch(storeDir: Path): SnapshotLoadWatcher

  override def supportedCustomMetrics: Seq[StateStoreCustomMetric] =
    super.supportedCustomMetrics ++ RestoreMetrics.supported

  override protected def createRocksDB(
      dfsRootDir: String,
      conf: RocksDBConf,
      localRootDir: File,
      hadoopConf: Configuration,
      loggingId: String,
      useColumnFamilies: Boolean,
      enableStateStoreCheckpointIds: Boolean,
      partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder],
      uniqueId: Option[String]): RocksDB =
    OpenStores.take(dfsRootDir, conf, useColumnFamilies, enableStateStoreCheckpointIds, partitionId, eventForwarder) match {
      case Some(open) =>
        Utils.tryLogNonFatalError(Utils.deleteRecursively(localRootDir)) // it has one of its own
        open
      case None => new RocksDBDoor(watch(new Path(dfsRootDir)), dfsRootDir, conf, localRootDir, hadoopConf, loggingId,
        useColumnFamilies, enableStateStoreCheckpointIds, partitionId, eventForwarder, uniqueId)
    }
}

/** What the door tells, and asks, about one store. Called by the one thread that holds the store. */
trait SnapshotLoadWatcher {

  /** The file system for SST and log files: `stock`, or something in front of it. */
  def fileSystem(stock: FileSystem): FileSystem

  /** Whether the host keeps this file of the store's. */
  def keeps(name: String): Boolean

  /** The store is asked for; nothing is known yet of whether files have to be read. */
  def opening(): Unit

  /**
   * A snapshot is about to be brought to the working directory. `doubts` is how often in a row the store failed after
   * it was brought here: from 1 on no local copy is trusted unread, from 2 on none is.
   */
  def loading(version: Long, doubts: Int): Unit

  /** It fails again and again to be opened: what the host keeps of it to tell versions by may have been damaged when it came. */
  def distrusting(): Unit

  /** The store is not asked for any more, however that ended. */
  def closing(): Unit

  /** The store stands at `version` after `milliseconds`, whether or not anything had to be loaded. */
  def loaded(version: Long, milliseconds: Long): Unit

  /** The store was opened with the snapshot of `version`, which has these SST and log files. */
  def opened(version: Long, files: Set[String]): Unit

  /** A snapshot of `version` was saved, which has these SST and log files. Called by any thread. */
  def saved(version: Long, files: Set[String]): Unit

  /** A commit or an upload has ended, well or badly, and nothing of it counts yet. Called by the thread that did it. */
  def written(): Unit

  /** The store is a provider's from now on; it was a copy. The provider has not asked for a version yet. */
  def takenOver(): Unit

  /** A version was committed; the store's SST files weigh `bytes`, by the figures that RocksDB takes at each commit. */
  def committed(bytes: Long): Unit
}

private class RocksDBDoor(
    watcher: SnapshotLoadWatcher,
    dfsRootDir: String,
    conf: RocksDBConf,
    localRootDir: File,
    hadoopConf: Configuration,
    loggingId: String,
    useColumnFamilies: Boolean,
    enableStateStoreCheckpointIds: Boolean,
    partitionId: Int,
    eventForwarder: Option[RocksDBEventForwarder],
    uniqueId: Option[String])
  extends RocksDB(dfsRootDir, conf, localRootDir, hadoopConf, loggingId, useColumnFamilies,
    enableStateStoreCheckpointIds, partitionId, eventForwarder, uniqueId) {

  override protected def createFileManager(
      dfsRootDir: String,
      localTempDir: File,
      hadoopConf: Configuration,
      codecName: String,
      loggingId: String,
      storeConf: StateStoreConf): RocksDBFileManager =
    new FileManagerDoor(watcher, dfsRootDir, localTempDir, hadoopConf, codecName, loggingId, storeConf,
      conf.fileChecksumEnabled, fileChecksumThreadPoolSize)

  private def files: FileManagerDoor = fileManager.asInstanceOf[FileManagerDoor]
  private def doubts: LoadDoubts = files.doubts

  // Contended only while a copy is taken over: a provider has one thread at a time at its instance.
  private val lock = new ReentrantLock
  private var isClosed = false
  @volatile private var isFresh = false // taken over, and not yet asked for a version

  def exclusively[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }

  override def load(
      version: Long,
      stateStoreCkptId: Option[String],
      readOnly: Boolean,
      loadEmpty: Boolean): RocksDB = exclusively {
    val start = System.nanoTime()
    watcher.opening()
    val before = doubts.now
    val result =
      try {
        // A copy of another version that can not go on is thrown away, its files with it; the store is opened as without it.
        if (isFresh && (loadEmpty || !(standsAt(version, stateStoreCkptId) || catchesUp(version, stateStoreCkptId)))) throwAway()
        isFresh = false
        if (before.failedLoads > 1) watcher.distrusting()
        super.load(version, stateStoreCkptId, readOnly, loadEmpty)
      } catch {
        case e: Throwable =>
          // One that was cut off tells nothing of the files.
          // Nor does one that has brought the version, and could not begin to write the next.
          if (RocksDBDoor.taskIsKilled) doubts.backTo(before) else if (loadedVersion < 0) doubts.loadFailed()
          throw e
      } finally watcher.closing()
    doubts.loadSucceeded()
    watcher.loaded(version, (System.nanoTime() - start) / 1000000)
    result
  }

  /** Only a reader of the state asks for it so. */
  override def loadFromSnapshot(
      snapshotVersion: Long,
      endVersion: Long,
      snapshotVersionStateStoreCkptId: Option[String],
      endVersionStateStoreCkptId: Option[String]): RocksDB = exclusively {
    if (isFresh) throwAway()
    isFresh = false
    super.loadFromSnapshot(snapshotVersion, endVersion, snapshotVersionStateStoreCkptId, endVersionStateStoreCkptId)
  }

  private def throwAway(): Unit = {
    loadedVersion = -1
    files.beginAnew()
  }

  /**
   * A copy that has missed the last commits goes on by their changelogs, where it builds on no older snapshot than who
   * wrote them did: what that one needs the checkpoint still has.
   */
  private def catchesUp(version: Long, id: Option[String]): Boolean = loadedVersion > 0 && loadedVersion < version && id.exists { last =>
    try {
      val lineage = lineageOf(version, last)
      val hasBase = beganWith.fold(lineage.head._1 == 1)(lineage.contains)
      hasBase && !hasSnapshotOf(lineage.filter(_._1 > loadedVersion)) && goOn(lineage)
    } catch {
      case NonFatal(_) if !RocksDBDoor.taskIsKilled => false // its files are read in another way, which tells what is wrong
    }
  }

  private def lineageOf(version: Long, id: String): Seq[(Long, String)] = {
    val changelog = files.getChangelogReader(version, Some(id))
    try changelog.lineage.toSeq.map(one => one.version -> one.checkpointUniqueId).sorted :+ (version -> id)
    finally changelog.closeIfNeeded()
  }

  /** A version that made a column family has a snapshot besides its changelog, which alone tells of that. */
  private def hasSnapshotOf(versions: Seq[(Long, String)]): Boolean =
    useColumnFamilies && versions.exists { case (version, id) => files.hasSnapshot(version, id) }

  private def standsAt(version: Long, id: Option[String]): Boolean =
    id.isDefined && loadedVersion == version && loadedStateStoreCkptId == id

  /** A provider has it now; the thread that brings a copy on may still be at it. */
  def takenOver(): Unit = {
    isFresh = true
    watcher.takenOver()
  }

  /** The snapshot that the loaded version builds on; None for the empty store. */
  def beganWith: Option[(Long, String)] = files.beganWith

  /**
   * Brings a copy from the version that it stands at to the last of these, which build on each other, by their changelogs;
   * false when it stands at none of them, or one is missing. Whatever fails leaves an instance that any load opens anew.
   */
  def goOn(lineage: Seq[(Long, String)]): Boolean = {
    val later = lineage.dropWhile { case (version, id) => !standsAt(version, Some(id)) }.drop(1)
    val isThere = lineage.lastOption.exists { case (version, id) => standsAt(version, Some(id)) }
    if (later.nonEmpty && later.map(_._1) == (loadedVersion + 1 to later.last._1)) {
      val (version, id) = later.last
      val replayable = later.map { case (one, itsId) => (one, Option(itsId)) }.toArray
      loadedStateStoreCkptId = None // a half-replayed instance is no version at all
      try replay(replayable)
      catch {
        case e: Throwable =>
          loadedVersion = -1
          throw e
      }
      lineageManager.resetLineage(lineage.map { case (one, itsId) => LineageItem(one, itsId) }.toArray)
      loadedVersion = version
      loadedStateStoreCkptId = Some(id)
      true
    } else isThere
  }

  /** As stock replays on top of a snapshot: nothing is written elsewhere, as a copy is loaded for reading only. */
  private def replay(versions: Array[(Long, Option[String])]): Unit =
    try { RocksDBDoor.replayChangelog.invoke(this, versions); () }
    catch { case e: InvocationTargetException => throw e.getCause }

  /** Spark's own `close` may be called by any thread, and any number of times. */
  override def close(): Unit = {
    lock.lock()
    try if (!isClosed) {
      isClosed = true
      super.close()
    } finally lock.unlock()
  }

  /** Closes it, unless another thread is at it. */
  def closeIfFree(): Unit = if (lock.tryLock()) {
    try close()
    finally lock.unlock()
  }

  override def commit(forceSnapshot: Boolean): (Long, StateStoreCheckpointInfo) = {
    val committed =
      try super.commit(forceSnapshot)
      finally watcher.written()
    doubts.settled()
    metricsOpt.foreach(metrics => watcher.committed(metrics.totalSSTFilesBytes))
    committed
  }

  override def rollback(): Unit = {
    // A failed task may have met a damaged file, which would fail its retry as well. A killed one has met none, nor has
    // one that could not fetch its input from an executor that is lost.
    val task = TaskContext.get()
    if (task != null && task.isFailed() && !task.isInterrupted() && task.fetchFailed.isEmpty) doubts.taskFailed()
    super.rollback()
  }
}

private object RocksDBDoor {
  def taskIsKilled: Boolean = Option(TaskContext.get()).exists(_.isInterrupted())

  /** Private in Spark 4.2, where only a load calls it. */
  private lazy val replayChangelog = {
    val method = classOf[RocksDB].getDeclaredMethod("replayChangelog", classOf[Array[(Long, Option[String])]])
    method.setAccessible(true)
    method
  }
}

/** How far the local files of one store may be trusted. */
private class LoadDoubts {
  @volatile private var doubt = LoadDoubts.Doubt()

  def any: Boolean = doubt.any
  def taskFailed(): Unit = doubt = doubt.copy(failed = true)

  /** Starts a load; answers how often in a row, up to now, a load or the task after it did not end well. */
  def loadStarts(): Int = {
    doubt = doubt.copy(unfinished = true, inARow = doubt.inARow + (if (any) 1 else 0))
    doubt.inARow
  }

  def loadSucceeded(): Unit = doubt = doubt.copy(unfinished = false, failed = false, failedLoads = 0)
  def loadFailed(): Unit = doubt = doubt.copy(failed = true, failedLoads = doubt.failedLoads + 1)

  /** A version was written on top of what was loaded, so that was good. */
  def settled(): Unit = doubt = doubt.copy(inARow = 0)

  def now: LoadDoubts.Doubt = doubt
  def backTo(earlier: LoadDoubts.Doubt): Unit = doubt = earlier
}

private object LoadDoubts {
  final case class Doubt(unfinished: Boolean = false, failed: Boolean = false, inARow: Int = 0, failedLoads: Int = 0) {
    def any: Boolean = unfinished || failed
  }
}

private class FileManagerDoor(
    watcher: SnapshotLoadWatcher,
    dfsRootDir: String,
    localTempDir: File,
    hadoopConf: Configuration,
    codecName: String,
    loggingId: String,
    storeConf: StateStoreConf,
    fileChecksumEnabled: Boolean,
    fileChecksumThreadPoolSize: Option[Int])
  extends RocksDBFileManager(dfsRootDir, localTempDir, hadoopConf, codecName, loggingId, storeConf,
    fileChecksumEnabled, fileChecksumThreadPoolSize) {

  val doubts = new LoadDoubts

  /** The snapshot that was brought last; None for the empty store. */
  @volatile var beganWith: Option[(Long, String)] = None
  private var isAnew = false

  /** The next load uses none of the files in the working directory. */
  def beginAnew(): Unit = isAnew = true

  override protected def getFileSystem(storeDir: String, conf: Configuration): FileSystem =
    watcher.fileSystem(super.getFileSystem(storeDir, conf))

  override def loadCheckpointFromDfs(
      version: Long,
      localDir: File,
      mapping: RocksDBFileMapping,
      checkpointUniqueId: Option[String]): RocksDBCheckpointMetadata = {
    val doubted = doubts.loadStarts()
    refuseToCountACancelledLoadAsDamage()
    // Our local files are hard links of the host's copies: what is wrong with one is wrong with the other.
    if ((doubted > 0 || isAnew) && localDir.exists) listRocksDBFiles(localDir)._1.foreach { file =>
      mapping.remove(file.getName)
      file.delete()
    }
    isAnew = false
    watcher.loading(version, doubted)
    try {
      val loaded = super.loadCheckpointFromDfs(version, localDir, mapping, checkpointUniqueId)
      beganWith = checkpointUniqueId.map(version -> _).filter(_ => version > 0)
      watcher.opened(version, loaded.immutableFiles.map(_.dfsFileName).toSet)
      loaded
    } catch {
      case e: ClosedByInterruptException => throw cancelled(e)
      case e: Throwable =>
        refuseToCountACancelledLoadAsDamage()
        throw e
    }
  }

  override def saveCheckpointToDfs(
      checkpointDir: File,
      version: Long,
      numKeys: Long,
      numInternalKeys: Long,
      fileMapping: scala.collection.Map[String, RocksDBSnapshotFile],
      columnFamilyMapping: Option[scala.collection.Map[String, ColumnFamilyInfo]],
      maxColumnFamilyId: Option[Short],
      checkpointUniqueId: Option[String],
      verifyNonEmptyFilesInZip: Boolean): Unit = {
    super.saveCheckpointToDfs(checkpointDir, version, numKeys, numInternalKeys, fileMapping, columnFamilyMapping,
      maxColumnFamilyId, checkpointUniqueId, verifyNonEmptyFilesInZip)
    watcher.saved(version, fileMapping.values.map(_.immutableFile.dfsFileName).toSet)
  }

  /** What maintenance does after the upload of a snapshot, if there was one. It may take long, and remove what was uploaded late. */
  override def deleteOldVersions(retained: Int, mostDeleted: Int, leastDeleted: Long): Unit = {
    watcher.written()
    super.deleteOldVersions(retained, mostDeleted, leastDeleted)
  }

  // Finding the snapshot costs stock four calls to the checkpoint. What the host keeps, the checkpoint has had.
  override def existsSnapshotFile(version: Long, checkpointUniqueId: Option[String]): Boolean =
    checkpointUniqueId match {
      case Some(id) if !doubts.any && watcher.keeps(s"${version}_$id.zip") => true
      // The lineage in the changelog leads to a snapshot as well.
      case Some(id) if !doubts.any && watcher.keeps(s"${version}_$id.changelog") => false
      case _ => super.existsSnapshotFile(version, checkpointUniqueId)
    }

  /** Whether the checkpoint has it, whatever the host keeps. */
  def hasSnapshot(version: Long, id: String): Boolean = super.existsSnapshotFile(version, Some(id))

  override def getSnapshotVersionsAndUniqueIdsFromLineage(lineage: Array[LineageItem]): Seq[(Long, String)] = {
    val kept = if (doubts.any) Array.empty[LineageItem]
      else lineage.filter(i => watcher.keeps(s"${i.version}_${i.checkpointUniqueId}.zip")).sortBy(-_.version)
    // The last one's changelog has just been read, for the lineage; others may have been removed from the checkpoint.
    val last = lineage.map(_.version).maxOption
    if (kept.nonEmpty && lineage.filter(i => i.version > kept.head.version && !last.contains(i.version))
        .forall(i => watcher.keeps(s"${i.version}_${i.checkpointUniqueId}.changelog")))
      kept.map(i => (i.version, i.checkpointUniqueId)).toSeq
    else super.getSnapshotVersionsAndUniqueIdsFromLineage(lineage)
  }

  /** Stock takes any ordinary exception for a damaged snapshot and replays every changelog instead. */
  private def refuseToCountACancelledLoadAsDamage(): Unit = if (RocksDBDoor.taskIsKilled) throw cancelled(null)

  private def cancelled(cause: Throwable): Throwable =
    new InterruptedException("the task was killed while its state was loading").initCause(cause)
}
