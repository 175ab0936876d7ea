package io.mooring.drain

import io.mooring.common.Log
import io.mooring.election.LeaderOnlyWrites
import org.apache.spark.sql.execution.streaming.state.shims.{DrainLog, Ending, StreamShim}

/**
 * Writes how far the drain of one run has come: into the checkpoint's markers, into the log, and to the agent, as a
 * DrainProgressed event. The valve calls it on the stream's thread. When a marker can not be written the query ends with that
 * error: a drain that no marker names would be lost at the next start.
 *
 * @param drainSet the checkpoints that are drained together with this one
 * @param tell     sends a DrainProgressed event with these fields
 */
private[drain] final class DrainJournal(
    query: StreamShim, run: DrainedRun, markersOfQuery: => DrainMarkers, application: () => String, drainSet: () => Seq[String],
    tell: (DrainProgress, Seq[(String, Any)]) => Unit) extends DrainLog {
  private lazy val markers = markersOfQuery
  private val firstBatch = query.lastCommitted.fold(0L)(_ + 1) // the first batch that the journal counts
  private var rowsFlushed, rowsLeft = 0L
  private var flushes = 0
  private var frozenAt, caughtUpAt = 0L // milliseconds since 1970
  private var isStop = false // the query is to stop with its state kept, not to be drained

  /** The drain was asked for; `after` maps the queries that are to be drained before this one to their checkpoints. */
  def requested(after: Map[String, String]): Unit =
    markDraining(DrainingPhase.Asked, firstBatch - 1, "after" -> after)

  // An earlier run of the query may have begun the flush: its marker stays, with the watermark from before the flush.
  private def isFlushMarked = run.hasBegunFlush

  override def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit = {
    frozenAt = System.currentTimeMillis()
    isStop = ending != Ending.Drained
    if (ending == Ending.Drained) {
      if (!isFlushMarked) markDraining(DrainingPhase.Frozen, next - 1, "zero-input" -> zeroInput)
      run.isFrozen = true
    }
    report(DrainProgress.Frozen, next - 1, "its intake is stopped")
  }

  override def caughtUp(next: Long, watermarkMs: Long): Unit = {
    caughtUpAt = System.currentTimeMillis()
    if (!isFlushMarked) {
      markDraining(DrainingPhase.Flushing, next - 1, "watermark" -> watermarkMs)
      run.firstFlush = next
    }
    report(DrainProgress.CaughtUp, next - 1, "all that had come in was processed")
  }

  override def flushed(batch: Long, removed: Long, left: Long): Unit = {
    rowsFlushed += removed
    rowsLeft = left
    flushes += 1
    report(DrainProgress.Flushed, batch, s"$removed rows of state went, $left are left")
  }

  override def drained(last: Long): Unit = {
    LeaderOnlyWrites.check(DrainMarkers.DrainedFile)
    markers.writeDrained(marker(last) ++ Map("frozen-at" -> frozenAt, "caught-up-at" -> caughtUpAt, "flush-batches" -> flushes,
      "state-rows-flushed" -> rowsFlushed, "state-rows-left" -> rowsLeft))
    report(DrainProgress.Drained, last,
      s"it stops after $flushes batches in which $rowsFlushed rows of state went; $rowsLeft are left")
  }

  override def stopped(last: Long, how: Ending): Unit = {
    isStop = true
    rowsLeft = query.stateRows
    report(DrainProgress.Stopped, last, s"it stops (${how.name}); $rowsLeft rows of state are kept")
  }

  private def report(progress: DrainProgress, batch: Long, what: String): Unit = {
    if (isStop) Log.info(s"stop of query ${query.label}, batch $batch: $what")
    else Log.info(s"drain of query ${query.label}, batch $batch: $what")
    tell(progress, Seq("batch" -> batch, "batches" -> math.max(0, batch + 1 - firstBatch), "rows" -> query.rowsSince(firstBatch),
      "flushed" -> rowsFlushed, "left" -> rowsLeft, "flushes" -> flushes))
  }

  private def markDraining(phase: DrainingPhase, last: Long, more: (String, Any)*): Unit = {
    LeaderOnlyWrites.check(DrainMarkers.DrainingFile)
    markers.writeDraining(marker(last) ++ Map("phase" -> phase.name) ++ more)
  }

  /** What every marker of a drain holds; `last` is the last batch that had ended. */
  private def marker(last: Long): Map[String, Any] = Map("at" -> System.currentTimeMillis(), "deployment" -> application(),
    "query" -> query.id, "name" -> query.name, "batch" -> last, "offsets" -> query.offsets(last),
    "with" -> (drainSet() :+ query.checkpoint).distinct.sorted)
}
