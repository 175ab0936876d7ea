package org.apache.spark.sql.execution.streaming.state.shims

import java.io.File
import java.nio.channels.ClosedByInterruptException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem

import org.apache.spark.sql.execution.streaming.state._

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

private class FileManagerShim(
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
  @volatile private var origins = Option.empty[RocksDBFileMapping] // of local files, in the checkpoint
  private var isAnew = false

  /** The next snapshot names none of the files that the checkpoint has: all are uploaded, under new names. */
  def forgetOrigins(): Unit = origins.foreach(_.clear())

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
    origins = Some(mapping)
    watcher.loading(version, doubted)
    try {
      val loaded = super.loadCheckpointFromDfs(version, localDir, mapping, checkpointUniqueId)
      beganWith = checkpointUniqueId.map(version -> _).filter(_ => version > 0)
      watcher.opened(version, checkpointUniqueId, loaded.immutableFiles.map(_.dfsFileName).toSet)
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
    val files = fileMapping.values.map(f => f.immutableFile.dfsFileName -> f.immutableFile.sizeBytes).toMap
    watcher.saved(version, checkpointUniqueId, files, storeConf.minVersionsToRetain)
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

  /**
   * A changelog names the versions that it builds on, of which none before the snapshot that they were brought from is needed.
   * Stock lets go of those only where it uploads a snapshot itself. Where a partition goes elsewhere before that, again and
   * again, they would become more until they could not be written, which ends the query: some 860 are the most.
   */
  override def getChangeLogWriter(
      version: Long,
      useColumnFamilies: Boolean,
      checkpointUniqueId: Option[String],
      lineage: Option[Array[LineageItem]]): StateStoreChangelogWriter =
    super.getChangeLogWriter(version, useColumnFamilies, checkpointUniqueId, lineage.map(sinceItBegan))

  private def sinceItBegan(lineage: Array[LineageItem]): Array[LineageItem] = beganWith match {
    case Some((first, id)) if lineage.contains(LineageItem(first, id)) => lineage.filter(_.version >= first)
    case _ => lineage
  }

  /** Stock takes any ordinary exception for a damaged snapshot and replays every changelog instead. */
  private def refuseToCountACancelledLoadAsDamage(): Unit = if (RocksDBShim.taskIsKilled) throw cancelled(null)

  private def cancelled(cause: Throwable): Throwable =
    new InterruptedException("the task was killed while its state was loading").initCause(cause)
}
