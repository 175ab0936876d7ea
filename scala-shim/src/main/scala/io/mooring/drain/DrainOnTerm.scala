package io.mooring.drain

import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicBoolean

import io.mooring.agent.Bridge
import io.mooring.common.{Daemon, Log}
import org.apache.spark.shims.Signals

/**
 * Drains the application's queries when the driver gets a SIGTERM, and ends the driver after that. The agent decides the order. A
 * second SIGTERM ends the driver at once, as in stock Spark. So does the first one when no agent runs, or no query runs.
 *
 * A thread of the JVM for signals calls the handler; a daemon thread waits for the drains and ends the JVM. Depends on `Signals`.
 * Event: TerminationAsked.
 *
 * @param isAgentExpected  whether an agent runs, or is about to be started
 * @param running          the number of the user's queries that run
 * @param requestsFinished how many requests for drains the agent has finished
 */
final class DrainOnTerm(bridge: Bridge, isAgentExpected: () => Boolean, running: () => Int, requestsFinished: () => Int) {
  import DrainOnTerm._

  private val hasHadTerm = new AtomicBoolean

  private val handler = Signals.onTerm(() => !hasHadTerm.getAndSet(true) && running() > 0 && begin())

  /** The application ends: a SIGTERM ends the JVM as if there had been no handler. */
  def stop(): Unit = handler.close()

  /** Requests the drain. False when no agent can carry it out. */
  private def begin(): Boolean = isAgentExpected() && {
    Log.info("SIGTERM: the queries are drained first (spark.mooring.drain.on.sigterm); another SIGTERM ends the driver at once")
    val finishedBefore = requestsFinished()
    bridge.tell(Map("event" -> "TerminationAsked"), about = Some("termination"))
    Daemon.start("mooring-drain-on-term")(endWhenDrained(finishedBefore))
    true
  }

  /**
   * Ends the JVM when the drains are over. A driver that waits for its queries ends by itself when they are drained, with an exit
   * code of its own: so this waits a grace time first.
   */
  private def endWhenDrained(finishedBefore: Int): Unit = {
    def isFinished = requestsFinished() > finishedBefore
    while (running() > 0 && isAgentExpected() && !isFinished) Thread.sleep(LookEveryMs)
    if (running() == 0) SECONDS.sleep(GraceSeconds)
    else if (isFinished) Log.warn("not all queries could be drained: the driver ends, and the others keep their state")
    else Log.trouble("there is no agent any more to drain the queries: the driver ends with their state kept")
    System.exit(ExitOfTerm)
  }
}

private object DrainOnTerm {
  private val LookEveryMs = 100L
  private val GraceSeconds = 10L
  private val ExitOfTerm = 128 + 15
}
