package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.locks.ReentrantLock

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.shims.IdleWaitBudget
import org.apache.spark.sql.execution.streaming.state._

/**
 * Stock Spark's `RocksDB`, the instance of one state store, with what Mooring adds to it:
 *
 *  - it calls a `StoreObserver` at loads and commits, for the host's store, metrics and reports;
 *  - it stays usable after a task was killed, where stock Spark opens the version again;
 *  - as an open copy it is advanced from version to version by changelogs, until a provider takes it over;
 *  - it makes snapshots at versions that differ from partition to partition;
 *  - its maintenance waits until the executor is idle.
 *
 * Threads: the task's thread (`load`, writes, `commit`, `rollback`), a thread that advances copies (`exclusively`, `advance`),
 * Spark's maintenance (`whenIdle`), and any thread (`close`).
 * Depends on the signatures of `RocksDB` in `RocksDBOfLine`, `LoadsOfLine`, `WritesOfLine` and `MaintenanceOfLine`, and for copies
 * on what `InsideRocksDB` reaches. Where the latter is missing, an instance is opened again each time, as in stock Spark.
 * Without this class the host keeps no state files: each executor fetches its state from the checkpoint.
 */
private class RocksDBShim(observer: StoreObserver, arguments: RocksDBArguments)
  extends RocksDBOfLine(observer, arguments) with LoadsOfLine with WritesOfLine with MaintenanceOfLine {

  private def files: FileManagerShim = fileManager.asInstanceOf[FileManagerShim]
  private def doubts: LoadDoubts = files.doubts

  private val snapshotInterval = conf.minDeltasForSnapshot.toLong.max(1) // in versions

  // A provider uses its instance by one thread at a time, so threads meet here only while a copy is taken over. In Spark 4.0 the
  // owner of an instance may load it twice, while the next attempt's thread waits to become its owner. So a thread that needs
  // both becomes the owner first, and takes this lock then.
  private val lock = new ReentrantLock
  private var isClosed = false
  @volatile private var isJustTakenOver = false // a provider has taken this copy over and has loaded no version yet
  private lazy val inside = new InsideRocksDB(this)
  private val rollbackPoint = new RollbackPoint(() => position, changes => new Undo(inside, changes))

  /** Runs `body` while no other thread loads, advances or closes this instance. */
  def exclusively[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }

  private def exclusivelyAsOwner[T](body: => T): T = {
    becomeOwner()
    exclusively(body)
  }

  override protected def loading(version: Long, id: Option[String], readOnly: Boolean, isToBeEmpty: Boolean)(
      load: => RocksDB): RocksDB = exclusivelyAsOwner {
    val start = System.nanoTime()
    if (!rollbackPoint.isLeftAsItWas()) loadedVersion = -1
    observer.opening(version)
    val doubtsBefore = doubts.now
    val result =
      try {
        if (isJustTakenOver) {
          if (isToBeEmpty || !(isAt(version, id) || catchUp(version, id))) discardLocalFiles()
          else continueSnapshotSchedule()
        }
        isJustTakenOver = false
        if (doubtsBefore.failedLoads > 1) observer.loadsFailed()
        load
      } catch {
        case e: Throwable =>
          // Two failures tell nothing about the files: a task that was killed, and a version that was loaded before the failure.
          if (RocksDBShim.taskIsKilled) doubts.backTo(doubtsBefore) else if (loadedVersion < 0) doubts.loadFailed()
          throw e
      } finally observer.loadEnded()
    doubts.loadSucceeded()
    if (!readOnly) bringSnapshotForward()
    rollbackPoint.loaded(isUndoWanted = Undo.isWanted && !readOnly)
    observer.loaded(version, (System.nanoTime() - start) / 1000000)
    result
  }

  /** Called only by the reader of the state data source. */
  override protected def loadingFromSnapshot(load: => RocksDB): RocksDB = exclusivelyAsOwner {
    if (isJustTakenOver) discardLocalFiles()
    isJustTakenOver = false
    rollbackPoint.forget()
    load
  }

  /** The next load opens the store as if no copy had been here. */
  private def discardLocalFiles(): Unit = {
    loadedVersion = -1
    files.ignoreLocalFiles()
  }

  /**
   * Makes the next snapshot of a copy that was taken over due at the partition's turn, as its former owner would have made it.
   * Stock Spark counts from the snapshot that was loaded, which is mostly an older one: all copies that are taken over together
   * would make their snapshots in their first batch, when there is most to do.
   */
  private def continueSnapshotSchedule(): Unit = {
    val lineage = versionsIn(lineageManager.getLineageForCurrVersion())
    if (!mayNameItsBase(lineage, 0)) files.forgetOrigins()
    else if (mayNameItsBase(lineage, nextTurn - loadedVersion)) InsideRocksDB.setLastSnapshot(this, nextTurn - snapshotInterval)
  }

  /**
   * Makes the next snapshot due at the partition's turn, if that comes sooner than stock Spark's. With stock Spark, all partitions make
   * theirs in the same batch, one in `minDeltasForSnapshot`, and that batch takes longer. A partition's turn is the same on
   * any executor.
   */
  private def bringSnapshotForward(): Unit =
    if (conf.enableChangelogCheckpointing) for (last <- InsideRocksDB.lastSnapshotOf(this) if nextTurn < last + snapshotInterval)
      InsideRocksDB.setLastSnapshot(this, nextTurn - snapshotInterval)

  /** The next version at which it is the partition's turn to make a snapshot. */
  private def nextTurn: Long = {
    val next = loadedVersion + 1
    next + Math.floorMod(RocksDBShim.turnOf(arguments.partition, snapshotInterval) - next, snapshotInterval)
  }

  /** Advances a copy that has missed the last commits to this version by their changelogs; false when it can not. */
  private def catchUp(version: Long, id: Option[String]): Boolean = loadedVersion > 0 && loadedVersion < version && id.exists { last =>
    try {
      val lineage = lineageOf(version, last)
      // Once a snapshot is uploaded, the lineages of later versions begin with it. Its own lineage leads on to the versions before.
      def before = lineage.headOption.filter(_._1 > loadedVersion).toSeq.flatMap { case (first, itsId) => lineageOf(first, itsId).init }
      !hasSnapshotOf(lineage.filter(_._1 > loadedVersion)) && advance(lineage, None, before)
    } catch {
      case NonFatal(_) if !RocksDBShim.taskIsKilled => false // stock Spark's load reads the same files, and reports what is wrong
    }
  }

  /** The versions that this one builds on, as its changelog names them, and the version itself. */
  private def lineageOf(version: Long, id: String): Seq[(Long, String)] = {
    val changelog = files.getChangelogReader(version, Some(id))
    try versionsIn(changelog.lineage) :+ (version -> id)
    finally changelog.closeIfNeeded()
  }

  private def versionsIn(lineage: Array[LineageItem]): Seq[(Long, String)] =
    lineage.toSeq.map(item => item.version -> item.checkpointUniqueId).sorted

  /** Whether one of these versions has made a column family: its snapshot tells of the family, its changelog does not. */
  private def hasSnapshotOf(versions: Seq[(Long, String)]): Boolean =
    arguments.hasColumnFamilies && versions.exists { case (version, id) => files.hasSnapshot(version, id) }

  /** Whether the instance has this version loaded. */
  private def isAt(version: Long, id: Option[String]): Boolean =
    id.isDefined && loadedVersion == version && loadedStateStoreCkptId == id

  /** Called when a provider takes this copy over. Another thread may still be advancing the copy. */
  def takenOver(): Unit = {
    isJustTakenOver = true
    observer.takenOver()
  }

  /** The snapshot that the loaded version builds on; None for the empty store. */
  def beganWith: Option[(Long, String)] = files.beganWith

  /**
   * Whether this instance's next snapshot, `later` versions from now, may name files of the snapshot that the instance began
   * with. Spark removes files that only versions outside of the retained ones need. The answer is yes while the base is inside
   * them by a margin of a quarter of the retained versions, and of two versions at least.
   */
  private def mayNameItsBase(lineage: Seq[(Long, String)], later: Long): Boolean = {
    val (age, retained) = (ageOfBase(lineage), conf.minVersionsToRetain.toLong)
    age == 0 || (age + later) * 4 <= retained * 3 && age + later + 2 <= retained
  }

  /**
   * Whether the copy should be opened again from the newest snapshot. Yes, when its base is older than half of the retained
   * versions; or older than a quarter of them, while only few versions need to be replayed on top of the newest snapshot.
   */
  def isOutdated(lineage: Seq[(Long, String)]): Boolean = {
    val (age, retained) = (ageOfBase(lineage), conf.minVersionsToRetain)
    age * 2 > retained || age * 4 > retained && (lineage.size - 1) * 4 <= age
  }

  /** The newest of these versions whose snapshot the host keeps. */
  def newestSnapshotHere(versions: Seq[(Long, String)]): Option[(Long, String)] =
    versions.reverseIterator.find { case (version, id) => observer.keeps(s"${version}_$id.zip") }

  /** How many versions the end of the lineage is past this instance's base; 0 when the lineage contains the base. */
  private def ageOfBase(lineage: Seq[(Long, String)]): Long =
    if (beganWith.fold(lineage.headOption.exists(_._1 == 1))(lineage.contains)) 0L
    else lineage.lastOption.fold(0L)(_._1 - beganWith.fold(0L)(_._1))

  /**
   * Advances a copy from its version to the last version of `lineage`, by changelogs. False when the copy is at none of these
   * versions, or when a version between is missing. After an exception, the next load opens the instance again.
   *
   * @param lineage versions with their ids, oldest first, each of which builds on the one before
   * @param counts  the numbers of keys in the last version, where they are known
   * @param before  versions that the first one of `lineage` builds on
   */
  def advance(lineage: Seq[(Long, String)], counts: Option[KeyCounts], before: Seq[(Long, String)] = Nil): Boolean = {
    val later = (before ++ lineage).dropWhile { case (version, id) => !isAt(version, Some(id)) }.drop(1)
    val isAtTheEnd = lineage.lastOption.exists { case (version, id) => isAt(version, Some(id)) }
    if (later.nonEmpty && later.map(_._1) == (loadedVersion + 1 to later.last._1)) {
      val (version, id) = later.last
      loadedStateStoreCkptId = None // while changelogs are replayed the instance is at no version
      try replay(later, if (conf.trackTotalNumberOfRows) counts.filter(_.keys >= 0) else Some(KeyCounts.NotCounted))
      catch {
        case e: Throwable =>
          loadedVersion = -1
          throw e
      }
      lineageManager.resetLineage(lineage.map { case (each, itsId) => LineageItem(each, itsId) }.toArray)
      loadedVersion = version
      loadedStateStoreCkptId = Some(id)
      true
    } else isAtTheEnd
  }

  /** Replays changelogs. Where rows have checksums, stock Spark's own replay is used: only that one verifies them. */
  private def replay(versions: Seq[(Long, String)], counts: Option[KeyCounts]): Unit = {
    val replay = new Replay(this, arguments.hasColumnFamilies)
    counts.filterNot(_ => RowChecksums.areWritten(conf)) match {
      case None => replay.countingKeys(versions)
      case Some(known) =>
        for ((version, id) <- versions) {
          val changelog = files.getChangelogReader(version, Some(id))
          try replay.withoutCounting(changelog)
          finally changelog.closeIfNeeded()
        }
        replay.setCounts(known)
    }
  }

  /** Called by any thread, any number of times, as stock Spark's. */
  override def close(): Unit = {
    becomeOwner()
    lock.lock()
    try
      if (isClosed) passToAnotherThread()
      else {
        isClosed = true
        super.close()
      }
    finally lock.unlock()
  }

  /**
   * Closes the instance, unless another thread is using it. Here the lock comes before the owner: only for a copy that no provider
   * has taken over, which has no owner.
   */
  def closeIfFree(): Unit = if (lock.tryLock()) {
    try close()
    finally lock.unlock()
  }

  override protected def committing(commit: => (Long, StateStoreCheckpointInfo)): (Long, StateStoreCheckpointInfo) = {
    rollbackPoint.committing()
    val committed =
      try commit
      finally filesAreWritten()
    doubts.settled()
    for (metrics <- metricsOpt) {
      val bytes = if (hasKnownSize(committed._1, metrics)) metrics.totalSSTFilesBytes else -1
      if (bytes >= 0) observer.sizeMeasured(bytes)
      observer.versionCommitted(committed._1, committed._2.stateStoreCkptId, committed._2.baseStateStoreCkptId,
        if (conf.trackTotalNumberOfRows) metrics.numUncommittedKeys else -1, bytes)
      for (id <- committed._2.stateStoreCkptId if countsHelpCopies)
        observer.keysCounted(committed._1, id, KeyCounts(metrics.numUncommittedKeys, metrics.numInternalKeys))
    }
    committed
  }

  /** A commit or an upload has ended: the host keeps the files that it has written. */
  protected def filesAreWritten(): Unit = observer.filesWritten()

  /**
   * Whether the SST files tell how large the store is. With changelogs a store has no SST files before its first snapshot: it
   * would look empty beside stores that have made theirs.
   */
  private def hasKnownSize(version: Long, metrics: RocksDBMetrics): Boolean =
    metrics.totalSSTFilesBytes > 0 || !conf.enableChangelogCheckpointing ||
      (if (conf.trackTotalNumberOfRows) metrics.numUncommittedKeys == 0 else version >= snapshotInterval)

  /** Whether an open copy of this store can use the number of keys. */
  private def countsHelpCopies: Boolean = conf.enableChangelogCheckpointing && conf.trackTotalNumberOfRows && !RowChecksums.areWritten(conf)

  override protected def writing(key: Array[Byte], family: String, includesPrefix: Boolean)(write: => Unit): Unit = {
    for (changes <- rollbackPoint.undo) changes.beforeWrite(key, Option.when(arguments.hasColumnFamilies && !includesPrefix)(family))
    write
  }

  /** Nothing can be taken back after this write. */
  override protected def writingUnknownKeys(write: => Unit): Unit = {
    rollbackPoint.undo.foreach(_.giveUp())
    write
  }

  /**
   * After a roll-back, stock Spark opens the version again for the next attempt. A task that was killed, or could not fetch its input from
   * a lost executor, has mostly written little: its writes are taken back, and the instance stays open at the version.
   */
  override def rollback(): Unit = {
    becomeOwner() // a task may roll back twice, and the next attempt may use the instance by then: its writes stay
    val task = Option(TaskContext.get())
    val wasKilledOrFetchFailed = task.exists(context => context.isInterrupted() || context.fetchFailed.nonEmpty)
    // Otherwise a damaged local file may be the reason, and would fail the retry too.
    if (!wasKilledOrFetchFailed && task.exists(_.isFailed())) doubts.taskFailed()
    // Another thread may hold the lock for long, while it advances or closes the instance: a killed task does not wait for that.
    val isMine = wasKilledOrFetchFailed && lock.tryLock()
    try {
      val lineage = lineageManager.getLineageForCurrVersion()
      val kept =
        try if (isMine) rollbackPoint.takeBack() else None
        finally {
          rollbackPoint.forget()
          super.rollback()
        }
      for (position <- kept) {
        lineageManager.resetLineage(lineage)
        loadedVersion = position.version
        loadedStateStoreCkptId = position.id
      }
      rollbackPoint.leftAt(kept)
    } finally if (isMine) lock.unlock()
  }

  /** Spark calls this for all stores of an executor at once, mostly in the middle of a batch. It waits for the batch to end, for 5 s at most. */
  override protected def whenIdle(work: => Unit): Unit =
    try {
      RocksDBShim.maintenanceWait.await()
      work
    } catch {
      case _: InterruptedException => Thread.currentThread().interrupt() // Spark ends its maintenance threads, and looks for this flag
    }

  /** The position of this instance; None when it can not be known. */
  private def position: Option[Position] = {
    lock.lock() // a native instance must not be asked after it is closed
    try Option.when(!isClosed)(inside.db).flatMap(Option(_)).map { db =>
      Position(loadedVersion, loadedStateStoreCkptId, db.getLatestSequenceNumber, inside.families.asScala.toMap)
    } catch {
      case NonFatal(_) => None // this Spark has another `RocksDB`: a version is opened again, as in stock Spark
    } finally lock.unlock()
  }
}

private object RocksDBShim {
  /** Waits of the maintenance of all stores. An upload takes a good part of a second of processor time from a batch. */
  val maintenanceWait = new IdleWaitBudget(longestMs = 5000)

  def taskIsKilled: Boolean = Option(TaskContext.get()).exists(_.isInterrupted())

  /**
   * At which of every `every` versions a partition makes its snapshot: a number from 0 to `every` - 1. A host often has each
   * second, or each tenth, partition. Their multiples of the golden ratio are spread evenly, so few of them share a turn.
   */
  def turnOf(partition: Int, every: Long): Long = (partition * 2654435769L & 0xFFFFFFFFL) * every >>> 32
}
