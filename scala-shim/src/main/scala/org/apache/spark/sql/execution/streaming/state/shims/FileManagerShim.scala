package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File
import java.nio.channels.ClosedByInterruptException

import org.apache.spark.sql.execution.streaming.state._

/**
 * How far the local files of one store may be trusted: after loads and tasks that failed they may be damaged. Called by the
 * thread that uses the store.
 */
private class LoadDoubts {
  @volatile private var doubt = LoadDoubts.Doubt()

  def any: Boolean = doubt.any

  /** The task that had loaded the store failed. */
  def taskFailed(): Unit = doubt = doubt.copy(failed = true)

  /** A load starts. How often in a row a load before it, or the task after that, has failed. */
  def loadStarts(): Int = {
    doubt = doubt.copy(unfinished = true, inARow = doubt.inARow + (if (any) 1 else 0))
    doubt.inARow
  }

  def loadSucceeded(): Unit = doubt = doubt.copy(unfinished = false, failed = false, failedLoads = 0)
  def loadFailed(): Unit = doubt = doubt.copy(failed = true, failedLoads = doubt.failedLoads + 1)

  /** A version was committed on top of the loaded one: the local files are good. */
  def settled(): Unit = doubt = doubt.copy(inARow = 0)

  def now: LoadDoubts.Doubt = doubt
  def backTo(earlier: LoadDoubts.Doubt): Unit = doubt = earlier
}

private object LoadDoubts {
  final case class Doubt(unfinished: Boolean = false, failed: Boolean = false, inARow: Int = 0, failedLoads: Int = 0) {
    def any: Boolean = unfinished || failed
  }
}

/**
 * Stock Spark's file manager of one RocksDB store, with Mooring's additions:
 *
 *  - SST files and RocksDB's own log files go through the host's store (`FileManagerOfLine`), and the observer is called at loads and
 *    uploads;
 *  - local files that may be damaged are not used again (`LoadDoubts`);
 *  - the cancelled load of a killed task does not count as a damaged snapshot;
 *  - files that the host keeps are not looked for in the checkpoint;
 *  - changelogs name no versions before the snapshot that the instance began with.
 *
 * Called by the thread that uses the store, and by Spark's maintenance (`saveCheckpointToDfs`, `deleteOldVersions`). Depends on
 * the overridden methods of `RocksDBFileManager`, and on `RocksDBFileMapping.remove` and `clear`.
 * Without this class every file is fetched from the checkpoint.
 */
private class FileManagerShim(observer: StoreObserver, arguments: FileManagerArguments)
  extends FileManagerOfLine(observer, arguments) with SnapshotsInLineage {

  val doubts = new LoadDoubts

  /** The snapshot that was loaded last, as version and id; None for the empty store. */
  @volatile var beganWith: Option[(Long, String)] = None
  @volatile private var origins = Option.empty[RocksDBFileMapping] // maps local files to files of the checkpoint
  private var isLocalIgnored = false // whether the next load uses no file of the working directory

  /** The next snapshot reuses no file of the checkpoint: all local files are uploaded, under new names. */
  def forgetOrigins(): Unit = origins.foreach(_.clear())

  /** The next load uses none of the files in the working directory. */
  def ignoreLocalFiles(): Unit = isLocalIgnored = true

  override def loadCheckpointFromDfs(
      version: Long,
      localDir: File,
      mapping: RocksDBFileMapping,
      checkpointUniqueId: Option[String]): RocksDBCheckpointMetadata = {
    val doubted = doubts.loadStarts()
    throwIfTaskIsKilled()
    // Local files are hard links to the host's files, so damage is in both.
    if ((doubted > 0 || isLocalIgnored) && localDir.exists) listRocksDBFiles(localDir)._1.foreach { file =>
      mapping.remove(file.getName)
      file.delete()
    }
    isLocalIgnored = false
    origins = Some(mapping)
    observer.loading(version, doubted)
    try {
      val loaded = super.loadCheckpointFromDfs(version, localDir, mapping, checkpointUniqueId)
      beganWith = checkpointUniqueId.map(version -> _).filter(_ => version > 0)
      observer.snapshotLoaded(version, checkpointUniqueId, loaded.immutableFiles.map(_.dfsFileName).toSet)
      loaded
    } catch {
      case e: ClosedByInterruptException => throw cancelled(e)
      case e: Throwable =>
        throwIfTaskIsKilled()
        throw e
    }
  }

  // Stock Spark looks for the snapshot by four calls to the checkpoint. A file that the host keeps was in the checkpoint.
  override def existsSnapshotFile(version: Long, checkpointUniqueId: Option[String]): Boolean =
    checkpointUniqueId match {
      case Some(id) if !doubts.any && observer.keeps(s"${version}_$id.zip") => true
      // A version with a changelog: its lineage leads to the snapshot.
      case Some(id) if !doubts.any && observer.keeps(s"${version}_$id.changelog") => false
      case _ => super.existsSnapshotFile(version, checkpointUniqueId)
    }

  /** Whether the checkpoint has the snapshot; the host is not asked. */
  def hasSnapshot(version: Long, id: String): Boolean = super.existsSnapshotFile(version, Some(id))

  override protected def knownSnapshots(lineage: Array[LineageItem]): Seq[(Long, String)] = {
    val kept = if (doubts.any) Array.empty[LineageItem]
      else lineage.filter(i => observer.keeps(s"${i.version}_${i.checkpointUniqueId}.zip")).sortBy(-_.version)
    // The changelog of the last version has just been read, for its lineage. Others may be gone from the checkpoint.
    val last = lineage.map(_.version).maxOption
    if (kept.nonEmpty && lineage.filter(i => i.version > kept.head.version && !last.contains(i.version))
        .forall(i => observer.keeps(s"${i.version}_${i.checkpointUniqueId}.changelog")))
      kept.map(i => (i.version, i.checkpointUniqueId)).toSeq
    else Nil
  }

  /**
   * A changelog names all versions that it builds on. Those before the snapshot that this instance began with are not needed, and
   * are left out here. Stock Spark drops them only when it uploads a snapshot itself. If a partition always moved before that, the list
   * would grow until it can not be written (at about 860 versions), which ends the query.
   */
  override def getChangeLogWriter(
      version: Long,
      useColumnFamilies: Boolean,
      checkpointUniqueId: Option[String],
      lineage: Option[Array[LineageItem]]): StateStoreChangelogWriter =
    super.getChangeLogWriter(version, useColumnFamilies, checkpointUniqueId, lineage.map(fromItsBase))

  private def fromItsBase(lineage: Array[LineageItem]): Array[LineageItem] = beganWith match {
    case Some((first, id)) if lineage.contains(LineageItem(first, id)) => lineage.filter(_.version >= first)
    case _ => lineage
  }

  /** Stock Spark takes an ordinary exception for a damaged snapshot, and replays every changelog. An InterruptedException prevents that. */
  private def throwIfTaskIsKilled(): Unit = if (RocksDBShim.taskIsKilled) throw cancelled(null)

  private def cancelled(cause: Throwable): Throwable =
    new InterruptedException("the task was killed while its state was loading").initCause(cause)
}
