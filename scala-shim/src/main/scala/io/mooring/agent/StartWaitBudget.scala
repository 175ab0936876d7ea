package io.mooring.agent

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

/**
 * Bounds how long the start of a query waits for the agent: `milliseconds` for each run, over all its waits together. A wait
 * ends when no agent is expected. After the first batch of a run nothing waits. The stream's thread waits; the listener's
 * thread calls `ended`.
 */
final class StartWaitBudget(milliseconds: Long, agentIsExpected: () => Boolean) {
  private val waited = new ConcurrentHashMap[String, Long]() // run -> nanoseconds

  /** Whether an agent runs, or is about to be started. */
  def isAgentExpected: Boolean = agentIsExpected()

  /** Calls `waiting` with the milliseconds that are left of the run's budget. Subtracts the time that the call took from the budget. */
  def spend[T](run: String)(waiting: Long => T): T = {
    val began = System.nanoTime()
    try waiting(leftMs(run))
    finally { waited.merge(run, System.nanoTime() - began, (before, more) => before + more); () }
  }

  def leftMs(run: String): Long = math.max(0, milliseconds - TimeUnit.NANOSECONDS.toMillis(waited.getOrDefault(run, 0L)))

  def ended(run: String): Unit = { waited.remove(run); () }
}
