package io.mooring.drain

import io.mooring.common.Log
import io.mooring.election.LeaderOnlyWrites
import org.apache.spark.sql.execution.streaming.state.shims.{DrainLog, Ending, StreamShim}

/**
 * Records the progress of one run's drain in three places: in the markers of the checkpoint, in the log, and in DrainProgressed
 * events for the agent.
 *
 * The valve calls it on the stream's thread; `requested` is called by the thread that serves the agent. When a marker can not be
 * written, the query ends with that error. Otherwise the next start would not know of the drain.
 *
 * @param drainSet     the checkpoints that are drained together with this one
 * @param firstBatch   the first batch that the journal counts
 * @param sendProgress sends a DrainProgressed event with these fields
 */
private[drain] final class DrainJournal(
    query: StreamShim, run: DrainedRun, markersOfQuery: => DrainMarkers, application: () => String, drainSet: () => Seq[String],
    firstBatch: Long, sendProgress: (DrainProgress, Seq[(String, Any)]) => Unit) extends DrainLog {
  private lazy val markers = markersOfQuery
  private var rowsFlushed, rowsLeft = 0L
  private var flushes = 0
  private var frozenAt, caughtUpAt = 0L // milliseconds since 1970
  private var isStop = false // whether the query stops with its state kept, and is not drained

  /** A drain was requested. `after` maps the ids of queries that are to be drained before this one to their checkpoints. */
  def requested(after: Map[String, String]): Unit =
    markDraining(DrainingPhase.Asked, firstBatch - 1, "after" -> after)

  // An earlier run of the query may have begun the flush. The marker of that run stays: it has the watermark from before the flush.
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

  private def report(progress: DrainProgress, batch: Long, message: String): Unit = {
    if (isStop) Log.info(s"stop of query ${query.label}, batch $batch: $message")
    else Log.info(s"drain of query ${query.label}, batch $batch: $message")
    sendProgress(progress, Seq("batch" -> batch, "batches" -> math.max(0, batch + 1 - firstBatch), "rows" -> query.rowsSince(firstBatch),
      "flushed" -> rowsFlushed, "left" -> rowsLeft, "flushes" -> flushes))
  }

  private def markDraining(phase: DrainingPhase, lastBatch: Long, more: (String, Any)*): Unit = {
    LeaderOnlyWrites.check(DrainMarkers.DrainingFile)
    markers.writeDraining(marker(lastBatch) ++ Map("phase" -> phase.name) ++ more)
  }

  /** The fields of every marker of a drain. `lastBatch` is the last batch that had ended. */
  private def marker(lastBatch: Long): Map[String, Any] = Map("at" -> System.currentTimeMillis(), "deployment" -> application(),
    "query" -> query.id, "name" -> query.name, "batch" -> lastBatch, "offsets" -> query.offsets(lastBatch),
    "with" -> (drainSet() :+ query.checkpoint).distinct.sorted)
}
