package io.mooring.drain

import org.apache.spark.sql.execution.streaming.state.shims.{DrainValve, StreamShim}

/**
 * The state of a drain, or of another requested end, of one run of a query. It exists from the first request until the run is over.
 * Written and read by the stream's thread and by the thread that serves the agent.
 */
private[drain] final class DrainedRun(val query: StreamShim) {
  @volatile var end: RequestedEnd = RequestedEnd.NotRequested

  /** Whether the drain counts as failed if the run is over before the drain is. */
  @volatile var isToFinish = false

  /** Whether the drain or the requested stop has finished. The run is then about to be over. */
  @volatile var hasFinished = false

  /** The valve of a run that is held since its start, as a drain of it was requested. */
  @volatile var heldAtStart: Option[DrainValve] = None

  /** Whether queries that feed this one are drained before it. Then it has to read the output of their flush. */
  @volatile var isFedByOthers = false

  /** Whether a drain has stopped the run's intake. */
  @volatile var isFrozen = false

  /** The first batch that flushes the run's state; `Long.MaxValue` while there is none. */
  @volatile var firstFlush = Long.MaxValue

  def isFlush(batch: Long): Boolean = firstFlush <= batch
  def hasBegunFlush: Boolean = firstFlush < Long.MaxValue

  /** Whether a drain of the run has not begun: none was requested, or the run is still held. */
  def isBeforeDrain: Boolean = end match {
    case RequestedEnd.NotRequested => true
    case RequestedEnd.Refused => false
    case RequestedEnd.Begun(valve) => valve.isHeld
  }
}

/** The outcome of the request to end a run. */
private[drain] sealed trait RequestedEnd

private[drain] object RequestedEnd {
  case object NotRequested extends RequestedEnd
  /** The run can not be ended in the requested way. */
  case object Refused extends RequestedEnd
  final case class Begun(valve: DrainValve) extends RequestedEnd
}

/**
 * The kinds of DrainProgressed events.
 *
 * @param phase  the event's field `phase`
 * @param isLast whether the run is about to be over
 */
private[drain] sealed abstract class DrainProgress(val phase: String, val isLast: Boolean = false)

private[drain] object DrainProgress {
  case object Frozen extends DrainProgress("frozen")
  case object CaughtUp extends DrainProgress("caught-up")
  case object Flushed extends DrainProgress("flushed")
  case object Drained extends DrainProgress("drained", isLast = true)
  case object Stopped extends DrainProgress("stopped", isLast = true)
  case object Refused extends DrainProgress("refused")
  case object Failed extends DrainProgress("failed")
}
