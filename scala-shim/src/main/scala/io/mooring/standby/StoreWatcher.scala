package io.mooring.standby

import java.util.concurrent.atomic.AtomicBoolean

import io.mooring.common.Log
import io.mooring.localstore.{ArchiveStamp, CountingFileSystem, HostStoreFiles, HostStore, HostStores, NewestSnapshots, ReadCounts, SharedFileSystem, StoreReads, StoreWrites}
import io.mooring.reports.ExecutorReports
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.execution.streaming.state.shims.{KeyCounts, RestoreMetrics, StoreObserver}

/**
 * Connects one state store with the host's store, the metrics and the reports to the driver. `RocksDBShim`, `FileManagerShim` and its base
 * class `FileManagerOfLine` call it, on the threads that `StoreObserver` names.
 *
 * @param hasUniqueIds whether the store's versions have unique ids. Only such versions get rows in the catalogue
 * @param isOfCopy     whether the store is an open copy. Until a provider takes the copy over, its loads are not reported as openings
 */
private[mooring] final class StoreWatcher(storeDir: Path, hasUniqueIds: Boolean, isOfCopy: Boolean = false) extends StoreObserver {
  private val hostFiles = HostStores.ofThisExecutor.flatMap(_.filesOf(storeDir))
  private val reads = StoreReads.of(storeDir)
  private val size = new StateSize
  private val snapshots = new NewestSnapshots
  private val isToTidy = new AtomicBoolean
  private val isChecked = new AtomicBoolean // whether it was checked that the checkpoint still has the files of the opened snapshot
  @volatile private var checkpoint = Option.empty[FileSystem]
  @volatile private var doubts = 0
  @volatile private var isCopy = isOfCopy
  @volatile private var wasCopy = false // whether a provider has taken the copy over, and no task has opened it yet

  override def fileSystem(stock: FileSystem): FileSystem = {
    checkpoint = Some(stock)
    hostFiles match {
      case Some(kept) => new SharedFileSystem(stock, kept, reads, () => doubts, hasUniqueIds)
      case None => new CountingFileSystem(stock, reads, hasUniqueIds)
    }
  }

  override def writingArchive(write: => Unit): Unit = ArchiveStamp.whileWriting(write)

  override def keeps(name: String): Boolean = hostFiles.exists(_.has(name))

  /** Drops the counts of what maintenance has read since the last opening. */
  override def opening(version: Long): Unit = {
    reads.take()
    if (!isCopy) Copies.ofThisExecutor.foreach(_.taskCame(storeDir.toString, version))
    hostFiles.foreach(_.opening())
  }

  override def loadsFailed(): Unit = hostFiles.foreach(files => files.forget(namesIn(files).filter(HostStore.isOfVersion)))

  private def namesIn(files: HostStoreFiles) = HostStore.attemptOr("list its files", Set.empty[String])(files.names)

  override def loadEnded(): Unit = hostFiles.foreach(_.openingEnded())

  override def loading(version: Long, doubts: Int): Unit = this.doubts = doubts

  override def loaded(version: Long, milliseconds: Long): Unit = {
    // A copy that was taken over counts as opened, even when nothing had to be read.
    val read = reads.take().orElse(Option.when(wasCopy)(ReadCounts.Nothing))
    for (counts <- read if !isCopy) {
      wasCopy = false
      hostFiles.foreach(_.touch())
      RestoreMetrics.opened(storeDir, counts.localBytes, counts.remoteBytes, milliseconds)
      ExecutorReports.storeOpened(storeDir, version, milliseconds, hostFiles.fold(0L)(_.takeAheadMs()), counts)
    }
  }

  override def snapshotLoaded(version: Long, id: Option[String], files: Set[String]): Unit = hostFiles.foreach { here =>
    snapshots.opened(version, files, namesIn(here))
    if (!isCopy && version > 0 && !isChecked.getAndSet(true))
      for (stock <- checkpoint) here.mend(storeDir, files ++ id.map(unique => s"${version}_$unique.zip"), stock)
  }

  override def snapshotUploaded(version: Long, id: Option[String], files: Map[String, Long], retained: Int): Unit = {
    hostFiles.foreach { here =>
      snapshots.uploaded(version, files.keySet)
      if (!isToTidy.getAndSet(true)) here.tidy { kept =>
        isToTidy.set(false)
        snapshots.superseded(kept) ++ HostStore.archivesBefore(version - 2L * retained, kept)
      }
    }
    for (unique <- id; writes <- StoreWrites.of(storeDir)) {
      val archive = s"${version}_$unique.zip"
      ExecutorReports.snapshotUploaded(storeDir, version, unique, archive, writes.take(archive),
        files.toSeq.sorted.map { case (name, bytes) => (name, bytes, writes.take(name)) })
    }
  }

  override def versionCommitted(version: Long, id: Option[String], base: Option[String], keys: Long, bytes: Long): Unit =
    for (unique <- id; writes <- StoreWrites.of(storeDir)) {
      val changelog = s"${version}_$unique.changelog"
      ExecutorReports.versionCommitted(storeDir, version, unique, base, keys, bytes, changelog, writes.take(changelog))
    }

  override def filesWritten(): Unit = hostFiles.foreach(_.complete())

  override def takenOver(): Unit = {
    wasCopy = true
    isCopy = false
    Log.info(s"the open copy of $storeDir is taken over")
  }

  override def sizeMeasured(bytes: Long): Unit =
    if (size.isWorthReporting(bytes, System.nanoTime())) ExecutorReports.stateMeasured(storeDir, bytes)

  override def keysCounted(version: Long, id: String, keys: KeyCounts): Unit = ExecutorReports.keysCounted(version, id, keys)
}

/** Decides when the size of a store has changed enough to be reported. Used by the thread that commits. */
private final class StateSize {
  private var reported: Option[(Long, Long)] = None // bytes, and when (System.nanoTime)

  /** The first size is reported, and the first that is not 0; after that a change by a tenth, at most every 30 s. */
  def isWorthReporting(bytes: Long, nanoTime: Long): Boolean = {
    val isNew = reported.forall { case (before, at) =>
      math.abs(bytes - before) * 10 > before && (before == 0 || nanoTime - at >= StateSize.SilenceNanos)
    }
    if (isNew) reported = Some((bytes, nanoTime))
    isNew
  }
}

private object StateSize {
  private val SilenceNanos = java.util.concurrent.TimeUnit.SECONDS.toNanos(30)
}
