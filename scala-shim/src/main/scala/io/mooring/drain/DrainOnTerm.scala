package io.mooring.drain

import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicBoolean

import io.mooring.agent.Bridge
import io.mooring.common.{Daemon, Log}
import org.apache.spark.shims.Signals

/**
 * SIGTERM has the application's queries drained before it ends, in the order that the agent finds. A second one ends it
 * at once, as Spark does, and so does the first where there is no agent to hear of it.
 *
 * @param running how many queries of the user's run
 * @param timesOver how often the agent was done with all drains that were asked for
 */
final class DrainOnTerm(bridge: Bridge, mayBeTold: () => Boolean, running: () => Int, timesOver: () => Int) {
  import DrainOnTerm._

  private val isAsked = new AtomicBoolean

  Signals.onTerm(() => !isAsked.getAndSet(true) && running() > 0 && begins())

  private def begins(): Boolean = mayBeTold() && {
    Log.info("SIGTERM: the queries are drained first (spark.mooring.drain.on.sigterm); another SIGTERM ends the driver at once")
    val before = timesOver()
    bridge.tell(Map("event" -> "TerminationAsked"), about = Some("termination"))
    Daemon.start("mooring-drain-on-term")(endsWhenDrained(before))
    true
  }

  /** A driver that waits for its queries ends by itself then, with its own exit code. */
  private def endsWhenDrained(before: Int): Unit = {
    def isOver = timesOver() > before
    while (running() > 0 && mayBeTold() && !isOver) Thread.sleep(LookEveryMs)
    if (running() == 0) SECONDS.sleep(GraceSeconds)
    else if (isOver) Log.warn("not all queries could be drained: the driver ends, and the others keep their state")
    else Log.trouble("there is no agent any more to drain the queries: the driver ends with their state kept")
    System.exit(ExitOfTerm)
  }
}

private object DrainOnTerm {
  private val LookEveryMs = 100L
  private val GraceSeconds = 10L
  private val ExitOfTerm = 128 + 15
}
