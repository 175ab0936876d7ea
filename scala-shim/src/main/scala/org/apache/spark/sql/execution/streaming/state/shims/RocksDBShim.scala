package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File
import java.util.concurrent.locks.ReentrantLock

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.shims.IdleWaitBudget
import org.apache.spark.sql.execution.streaming.state._

private class RocksDBShim(
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
    new FileManagerShim(watcher, dfsRootDir, localTempDir, hadoopConf, codecName, loggingId, storeConf,
      conf.fileChecksumEnabled, fileChecksumThreadPoolSize)

  private def files: FileManagerShim = fileManager.asInstanceOf[FileManagerShim]
  private def doubts: LoadDoubts = files.doubts

  private val turns = conf.minDeltasForSnapshot.toLong.max(1)

  // Contended only while a copy is taken over: a provider has one thread at a time at its instance.
  private val lock = new ReentrantLock
  private var isClosed = false
  @volatile private var isFresh = false // taken over, and not yet asked for a version
  private lazy val inside = new InsideRocksDB(this)
  @volatile private var asLoaded = Option.empty[Position]
  @volatile private var asKept = Option.empty[Position] // what a roll-back has left open
  @volatile private var undo = Option.empty[Undo] // of what is written on top of what was loaded

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
    asLoaded = None
    undo = None
    // A task whose Python was still writing when it was rolled back has changed what was kept: it is opened anew.
    if (asKept.exists(!position.contains(_))) loadedVersion = -1
    asKept = None
    watcher.opening(version)
    val before = doubts.now
    val result =
      try {
        // A copy of another version that can not go on is thrown away, its files with it; the store is opened as without it.
        if (isFresh) {
          if (loadEmpty || !(standsAt(version, stateStoreCkptId) || catchesUp(version, stateStoreCkptId))) throwAway()
          else goOnForOwner()
        }
        isFresh = false
        if (before.failedLoads > 1) watcher.distrusting()
        super.load(version, stateStoreCkptId, readOnly, loadEmpty)
      } catch {
        case e: Throwable =>
          // One that was cut off tells nothing of the files.
          // Nor does one that has brought the version, and could not begin to write the next.
          if (RocksDBShim.taskIsKilled) doubts.backTo(before) else if (loadedVersion < 0) doubts.loadFailed()
          throw e
      } finally watcher.closing()
    doubts.loadSucceeded()
    if (!readOnly) takesItsTurn()
    asLoaded = position
    undo = asLoaded.filter(loaded => Undo.isWanted && !readOnly && loaded.id.nonEmpty).map(loaded => new Undo(inside, loaded.changes))
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
    asLoaded = None
    undo = None
    super.loadFromSnapshot(snapshotVersion, endVersion, snapshotVersionStateStoreCkptId, endVersionStateStoreCkptId)
  }

  private def throwAway(): Unit = {
    loadedVersion = -1
    files.beginAnew()
  }

  /**
   * The next snapshot is due at the partition's turn, as the owner's was. Stock counts from the one that was loaded, older as
   * a rule: all copies that are taken over together would make theirs in their first batch, when there is most to do.
   */
  private def goOnForOwner(): Unit = {
    val lineage = versionsIn(lineageManager.getLineageForCurrVersion())
    if (!mayNameItsBase(lineage, 0)) files.forgetOrigins()
    else if (mayNameItsBase(lineage, nextTurn - loadedVersion)) InsideRocksDB.setLastSnapshot(this, nextTurn - turns)
  }

  /**
   * Each partition makes its snapshots at versions of its own, the same on any executor: stock's all make theirs in the same
   * batch, one of so many, which takes the longer for it. None comes later than stock's would; the first one comes sooner.
   */
  private def takesItsTurn(): Unit =
    if (conf.enableChangelogCheckpointing) for (last <- InsideRocksDB.lastSnapshotOf(this) if nextTurn < last + turns)
      InsideRocksDB.setLastSnapshot(this, nextTurn - turns)

  /** The next version that is the partition's turn to make a snapshot at. */
  private def nextTurn: Long = {
    val next = loadedVersion + 1
    next + Math.floorMod(RocksDBShim.turnOf(partitionId, turns) - next, turns)
  }

  /** A copy that has missed the last commits goes on by their changelogs, where it may. */
  private def catchesUp(version: Long, id: Option[String]): Boolean = loadedVersion > 0 && loadedVersion < version && id.exists { last =>
    try {
      val lineage = lineageOf(version, last)
      // Once a snapshot is uploaded the lineages of later versions begin with it; its own leads on to those before.
      def before = lineage.headOption.filter(_._1 > loadedVersion).toSeq.flatMap { case (first, itsId) => lineageOf(first, itsId).init }
      !hasSnapshotOf(lineage.filter(_._1 > loadedVersion)) && goOn(lineage, None, before)
    } catch {
      case NonFatal(_) if !RocksDBShim.taskIsKilled => false // its files are read in another way, which tells what is wrong
    }
  }

  private def lineageOf(version: Long, id: String): Seq[(Long, String)] = {
    val changelog = files.getChangelogReader(version, Some(id))
    try versionsIn(changelog.lineage) :+ (version -> id)
    finally changelog.closeIfNeeded()
  }

  private def versionsIn(lineage: Array[LineageItem]): Seq[(Long, String)] =
    lineage.toSeq.map(one => one.version -> one.checkpointUniqueId).sorted

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
   * Whether the checkpoint will still have the files of the snapshot that it began with when its own next snapshot, so many
   * versions from now, names them. Those of an older one than the newest are removed with the versions that are not retained
   * any more; a quarter of their number, and two at least, are left until then.
   */
  private def mayNameItsBase(lineage: Seq[(Long, String)], later: Long): Boolean = {
    val (age, retained) = (ageOfBase(lineage), conf.minVersionsToRetain.toLong)
    age == 0 || (age + later) * 4 <= retained * 3 && age + later + 2 <= retained
  }

  /**
   * Whether it should rather begin with the newest snapshot: from a quarter of the versions that are retained when there
   * is little to be replayed on top of that, as when it has just been uploaded; from half of them in any case.
   */
  def isDated(lineage: Seq[(Long, String)]): Boolean = {
    val (age, retained) = (ageOfBase(lineage), conf.minVersionsToRetain)
    age * 2 > retained || age * 4 > retained && (lineage.size - 1) * 4 <= age
  }

  /** The newest of these versions of which the host keeps the snapshot. */
  def newestSnapshotHere(versions: Seq[(Long, String)]): Option[(Long, String)] =
    versions.reverseIterator.find { case (version, id) => watcher.keeps(s"${version}_$id.zip") }

  /** How many versions the end of the lineage is past what it began with; 0 when the lineage begins with that as well. */
  private def ageOfBase(lineage: Seq[(Long, String)]): Long =
    if (beganWith.fold(lineage.headOption.exists(_._1 == 1))(lineage.contains)) 0L
    else lineage.lastOption.fold(0L)(_._1 - beganWith.fold(0L)(_._1))

  /**
   * Brings a copy from the version that it stands at to the last of these, which build on each other, by their changelogs;
   * false when it stands at none of them, or one is missing. Whatever fails leaves an instance that any load opens anew.
   * `counts` are those of the last, where they are known; `before` are versions that the first one builds on.
   */
  def goOn(lineage: Seq[(Long, String)], counts: Option[KeyCounts], before: Seq[(Long, String)] = Nil): Boolean = {
    val later = (before ++ lineage).dropWhile { case (version, id) => !standsAt(version, Some(id)) }.drop(1)
    val isThere = lineage.lastOption.exists { case (version, id) => standsAt(version, Some(id)) }
    if (later.nonEmpty && later.map(_._1) == (loadedVersion + 1 to later.last._1)) {
      val (version, id) = later.last
      loadedStateStoreCkptId = None // a half-replayed instance is no version at all
      try replay(later, if (conf.trackTotalNumberOfRows) counts.filter(_.keys >= 0) else Some(KeyCounts.NotCounted))
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

  /** Nothing is written elsewhere, as a copy is loaded for reading only. Stock's replay alone verifies checksums of rows. */
  private def replay(versions: Seq[(Long, String)], counts: Option[KeyCounts]): Unit = {
    val replay = new Replay(this, useColumnFamilies)
    counts.filterNot(_ => conf.rowChecksumEnabled) match {
      case None => replay.counting(versions)
      case Some(told) =>
        for ((version, id) <- versions) {
          val changelog = files.getChangelogReader(version, Some(id))
          try replay.uncounted(changelog)
          finally changelog.closeIfNeeded()
        }
        replay.told(told)
    }
  }

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
    undo = None
    val committed =
      try super.commit(forceSnapshot)
      finally watcher.written()
    doubts.settled()
    for (metrics <- metricsOpt) {
      if (isWeighed(committed._1, metrics)) watcher.committed(metrics.totalSSTFilesBytes)
      watcher.versionCommitted(committed._1, committed._2.stateStoreCkptId, committed._2.baseStateStoreCkptId,
        if (conf.trackTotalNumberOfRows) metrics.numUncommittedKeys else -1, metrics.totalSSTFilesBytes)
      for (id <- committed._2.stateStoreCkptId if isWorthCounting)
        watcher.counted(committed._1, id, KeyCounts(metrics.numUncommittedKeys, metrics.numInternalKeys))
    }
    committed
  }

  /** Whether its SST files tell its weight: with changelogs it has none before its first snapshot, while others have theirs. */
  private def isWeighed(version: Long, metrics: RocksDBMetrics): Boolean =
    metrics.totalSSTFilesBytes > 0 || !conf.enableChangelogCheckpointing ||
      (if (conf.trackTotalNumberOfRows) metrics.numUncommittedKeys == 0 else version >= turns)

  /** Whether an open copy could do with the number of keys. */
  private def isWorthCounting: Boolean = conf.enableChangelogCheckpointing && conf.trackTotalNumberOfRows && !conf.rowChecksumEnabled

  // All ways to write.

  override def put(
      key: Array[Byte], value: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean,
      includesChecksum: Boolean): Unit = {
    writes(key, cfName, includesPrefix)
    super.put(key, value, cfName, includesPrefix, deriveCfName, includesChecksum)
  }

  override def putList(
      key: Array[Byte], values: List[Array[Byte]], cfName: String, includesPrefix: Boolean, includesChecksum: Boolean,
      deriveCfName: Boolean): Unit = {
    writes(key, cfName, includesPrefix)
    super.putList(key, values, cfName, includesPrefix, includesChecksum, deriveCfName)
  }

  override def merge(
      key: Array[Byte], value: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean,
      includesChecksum: Boolean): Unit = {
    writes(key, cfName, includesPrefix)
    super.merge(key, value, cfName, includesPrefix, deriveCfName, includesChecksum)
  }

  override def mergeList(
      key: Array[Byte], values: List[Array[Byte]], cfName: String, includesPrefix: Boolean, includesChecksum: Boolean,
      deriveCfName: Boolean): Unit = {
    writes(key, cfName, includesPrefix)
    super.mergeList(key, values, cfName, includesPrefix, includesChecksum, deriveCfName)
  }

  override def remove(
      key: Array[Byte], cfName: String, includesPrefix: Boolean, deriveCfName: Boolean, includesChecksum: Boolean): Unit = {
    writes(key, cfName, includesPrefix)
    super.remove(key, cfName, includesPrefix, deriveCfName, includesChecksum)
  }

  /** What that deletes is not looked up: nothing is taken back after it. */
  override def deleteRange(
      beginKey: Array[Byte], endKey: Array[Byte], cfName: String, includesPrefix: Boolean, includesChecksum: Boolean): Unit = {
    undo.foreach(_.giveUp())
    super.deleteRange(beginKey, endKey, cfName, includesPrefix, includesChecksum)
  }

  private def writes(key: Array[Byte], family: String, includesPrefix: Boolean): Unit =
    for (known <- undo) known.writes(key, Option.when(useColumnFamilies && !includesPrefix)(family))

  /**
   * Stock opens the version anew for the next attempt. A task that was killed, or could not fetch its input from an
   * executor that is lost, had written little as a rule: what it had is taken back, and the instance stands at the version.
   */
  override def rollback(): Unit = {
    val task = Option(TaskContext.get())
    val isInnocent = task.exists(context => context.isInterrupted() || context.fetchFailed.nonEmpty)
    if (!isInnocent && task.exists(_.isFailed())) doubts.taskFailed() // a damaged file would fail its retry as well
    val lineage = lineageManager.getLineageForCurrVersion()
    val unchanged =
      try asLoaded.filter(loaded => isInnocent && loaded.id.nonEmpty).flatMap(standsAgainAt)
      finally {
        asLoaded = None
        super.rollback()
      }
    for (kept <- unchanged) {
      lineageManager.resetLineage(lineage)
      loadedVersion = kept.version
      loadedStateStoreCkptId = kept.id
    }
    asKept = unchanged
  }

  /** Where it stands now, if that has the content of what was loaded. The task may be a killed one. */
  private def standsAgainAt(loaded: Position): Option[Position] = {
    lock.lock()
    try position.filter(_.copy(changes = loaded.changes) == loaded).flatMap { now =>
      if (now == loaded) Some(now) else undo.flatMap(_.done()).map(changes => now.copy(changes = changes))
    } catch {
      case NonFatal(_) => None // what is half taken back is opened anew, as stock does
    } finally {
      undo = None
      lock.unlock()
    }
  }

  /** Of all stores of an executor it comes at once, mostly in the middle of a batch: it waits for that to end, for a while. */
  override def doMaintenance(): Unit =
    try {
      RocksDBShim.patience.await()
      super.doMaintenance()
    } catch {
      case _: InterruptedException => Thread.currentThread().interrupt() // its threads are ended: Spark looks for that
    }

  /** None where it can not be told. */
  private def position: Option[Position] = {
    lock.lock() // a closed instance must not be asked
    try Option.when(!isClosed)(inside.db).flatMap(Option(_)).map { db =>
      Position(loadedVersion, loadedStateStoreCkptId, db.getLatestSequenceNumber, inside.families.asScala.toMap)
    } catch {
      case NonFatal(_) => None // another Spark's instance: what failed is opened anew, as stock does
    } finally lock.unlock()
  }
}

/** What an instance has in it: RocksDB numbers all changes, so one that is still there has the same content. */
private final case class Position(version: Long, id: Option[String], changes: Long, families: Map[Short, String])

private object RocksDBShim {
  /** Of the maintenance of all stores: what it uploads takes a good part of a second, from a batch of a few seconds. */
  val patience = new IdleWaitBudget(longestMs = 5000)

  def taskIsKilled: Boolean = Option(TaskContext.get()).exists(_.isInterrupted())

  /** Of 0 until `every`. Multiplied by the golden ratio, those that one host has, each tenth say, mostly lie evenly apart. */
  def turnOf(partition: Int, every: Long): Long = (partition * 2654435769L & 0xFFFFFFFFL) * every >>> 32
}
