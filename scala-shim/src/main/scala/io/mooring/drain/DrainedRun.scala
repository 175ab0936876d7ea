package io.mooring.drain

import org.apache.spark.sql.execution.streaming.state.shims.{DrainValve, StreamShim}

/**
 * What the driver knows of the end of one run of a query: from the first request to end it until the run is over. Written by
 * the stream's thread and by the thread that serves the agent, read by both and by tasks' planning.
 */
private[drain] final class DrainedRun(val query: StreamShim) {
  @volatile var end: RequestedEnd = RequestedEnd.NotRequested

  /** Whether the run counts as a failed drain when it is over before its drain is. */
  @volatile var isToFinish = false

  /** Whether it is drained, or was stopped as somebody asked, and is about to be over. */
  @volatile var hasFinished = false

  /** The valve of a run that is held since its start, as somebody has asked for its drain. */
  @volatile var heldAtStart: Option[DrainValve] = None

  /** Whether queries that feed it are drained before: it reads what those have let out. */
  @volatile var isFedByOthers = false

  /** Whether a drain has stopped its intake. */
  @volatile var isFrozen = false

  /** The first batch that flushes its state. */
  @volatile var firstFlush = Long.MaxValue

  def isFlush(batch: Long): Boolean = firstFlush <= batch
  def hasBegunFlush: Boolean = firstFlush < Long.MaxValue

  /** Whether its drain may still be noted as one to come: nothing has begun, or the run is held. */
  def isWaiting: Boolean = end match {
    case RequestedEnd.NotRequested => true
    case RequestedEnd.Refused => false
    case RequestedEnd.Begun(valve) => valve.isHeld
  }
}

/** What has come of the request to end a run. */
private[drain] sealed trait RequestedEnd

private[drain] object RequestedEnd {
  case object NotRequested extends RequestedEnd
  /** The run can not be ended so. */
  case object Refused extends RequestedEnd
  final case class Begun(valve: DrainValve) extends RequestedEnd
}

/** What a DrainProgressed event tells the agent of, by the event's `phase`. */
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
