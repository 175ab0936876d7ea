package io.mooring.standby

import java.util.concurrent.atomic.AtomicBoolean

import io.mooring.common.Log
import io.mooring.localstore.{CountingFileSystem, HostStoreFiles, HostStore, HostStores, NewestSnapshots, ReadCounts, SharedFileSystem, StoreReads, StoreWrites}
import io.mooring.reports.ExecutorReports
import org.apache.hadoop.fs.{FileSystem, Path}
import org.apache.spark.sql.execution.streaming.state.shims.{KeyCounts, RestoreMetrics, SnapshotLoadWatcher}

/** `isOfCopy`: until it is taken over, what it does is no opening of the store. */
private[mooring] final class StoreWatcher(storeDir: Path, isOfCopy: Boolean = false) extends SnapshotLoadWatcher {
  private val shelf = HostStores.ofThisExecutor.flatMap(_.shelf(storeDir))
  private val reads = StoreReads.of(storeDir)
  private val size = new StateSize
  private val snapshots = new NewestSnapshots
  private val isToTidy = new AtomicBoolean
  private val isLookedAt = new AtomicBoolean // whether the checkpoint still has what the store was opened from
  @volatile private var checkpoint = Option.empty[FileSystem]
  @volatile private var doubts = 0
  @volatile private var isCopy = isOfCopy
  @volatile private var wasCopy = false // taken over, and not yet opened

  override def fileSystem(stock: FileSystem): FileSystem = {
    checkpoint = Some(stock)
    shelf match {
      case Some(kept) => new SharedFileSystem(stock, kept, reads, () => doubts)
      case None => new CountingFileSystem(stock, reads)
    }
  }

  override def keeps(name: String): Boolean = shelf.exists(_.has(name))

  /** Forgets what the maintenance of old versions has read meanwhile: it opened nothing. */
  override def opening(version: Long): Unit = {
    reads.take()
    if (!isCopy) Copies.ofThisExecutor.foreach(_.taskCame(storeDir.toString, version))
    shelf.foreach(_.opening())
  }

  override def distrusting(): Unit = shelf.foreach(files => files.forget(namesIn(files).filter(HostStore.isOfVersion)))

  private def namesIn(files: HostStoreFiles) = HostStore.attemptOr("list its files", Set.empty[String])(files.names)

  override def closing(): Unit = shelf.foreach(_.opened())

  override def loading(version: Long, doubts: Int): Unit = this.doubts = doubts

  override def loaded(version: Long, milliseconds: Long): Unit = {
    // A copy that is taken over is opened by that, though nothing may be read.
    val read = reads.take().orElse(Option.when(wasCopy)(ReadCounts.Nothing))
    for (counts <- read if !isCopy) {
      wasCopy = false
      shelf.foreach(_.touch())
      RestoreMetrics.opened(storeDir, counts.localBytes, counts.remoteBytes, milliseconds)
      ExecutorReports.storeOpened(storeDir, version, milliseconds, shelf.fold(0L)(_.takeAheadMs()), counts)
    }
  }

  override def opened(version: Long, id: Option[String], files: Set[String]): Unit = shelf.foreach { here =>
    snapshots.opened(version, files, namesIn(here))
    if (!isCopy && version > 0 && !isLookedAt.getAndSet(true))
      for (stock <- checkpoint) here.mend(storeDir, files ++ id.map(unique => s"${version}_$unique.zip"), stock)
  }

  override def saved(version: Long, id: Option[String], files: Map[String, Long], retained: Int): Unit = {
    shelf.foreach { here =>
      snapshots.saved(version, files.keySet)
      if (!isToTidy.getAndSet(true)) here.tidy { kept =>
        isToTidy.set(false)
        snapshots.superseded(kept) ++ HostStore.archivesBefore(version - 2L * retained, kept)
      }
    }
    for (unique <- id; writes <- StoreWrites.of(storeDir)) {
      val archive = s"${version}_$unique.zip"
      ExecutorReports.snapshotSaved(storeDir, version, unique, archive, writes.take(archive),
        files.toSeq.sorted.map { case (name, bytes) => (name, bytes, writes.take(name)) })
    }
  }

  override def versionCommitted(version: Long, id: Option[String], base: Option[String], keys: Long, bytes: Long): Unit =
    for (unique <- id; writes <- StoreWrites.of(storeDir)) {
      val changelog = s"${version}_$unique.changelog"
      ExecutorReports.versionCommitted(storeDir, version, unique, base, keys, bytes, changelog, writes.take(changelog))
    }

  override def written(): Unit = shelf.foreach(_.complete())

  override def takenOver(): Unit = {
    wasCopy = true
    isCopy = false
    Log.info(s"the open copy of $storeDir is taken over")
  }

  override def committed(bytes: Long): Unit =
    if (size.isNews(bytes, System.nanoTime())) ExecutorReports.stateMeasured(storeDir, bytes)

  override def counted(version: Long, id: String, keys: KeyCounts): Unit = ExecutorReports.keysCounted(version, id, keys)
}

/** How large a store was said to be, and when: what is worth saying anew. */
private final class StateSize {
  private var told: Option[(Long, Long)] = None // bytes, and when

  /** The first sizes are news, of nothing and of something; then a change by a tenth, at most every 30 s. */
  def isNews(bytes: Long, nanoTime: Long): Boolean = {
    val isNew = told.forall { case (before, at) =>
      math.abs(bytes - before) * 10 > before && (before == 0 || nanoTime - at >= StateSize.SilenceNanos)
    }
    if (isNew) told = Some((bytes, nanoTime))
    isNew
  }
}

private object StateSize {
  private val SilenceNanos = java.util.concurrent.TimeUnit.SECONDS.toNanos(30)
}
