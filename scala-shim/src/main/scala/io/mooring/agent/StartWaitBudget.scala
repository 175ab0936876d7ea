package io.mooring.agent

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

/**
 * How long the start of a query may wait for the agent: `milliseconds` for each run in all, whatever for, and no longer
 * than there is hope. After its first batch nothing of a run waits.
 */
final class StartWaitBudget(milliseconds: Long, agentIsExpected: () => Boolean) {
  private val waited = new ConcurrentHashMap[String, Long]() // run -> nanoseconds

  /** Whether there is an agent to wait for. */
  def isAgentExpected: Boolean = agentIsExpected()

  /** Has `waiting` wait, for the milliseconds that it is given at the most, and counts how long it took. */
  def spend[T](run: String)(waiting: Long => T): T = {
    val began = System.nanoTime()
    try waiting(leftMs(run))
    finally { waited.merge(run, System.nanoTime() - began, (before, more) => before + more); () }
  }

  def leftMs(run: String): Long = math.max(0, milliseconds - TimeUnit.NANOSECONDS.toMillis(waited.getOrDefault(run, 0L)))

  def ended(run: String): Unit = { waited.remove(run); () }
}
