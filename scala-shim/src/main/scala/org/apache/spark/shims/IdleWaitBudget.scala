package org.apache.spark.shims

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.apache.spark.TaskContext

/**
 * Limits how long one kind of background work waits for idle moments: `longestMs` each time. Where tasks run all the time, waits are
 * of no use: then all waits together take three times `longestMs`, and from then on a twentieth of the time.
 *
 * Called by any thread that does the work; `await` blocks it. Depends on `IdleDetector`.
 */
final class IdleWaitBudget(longestMs: Long) {
  private val longest = MILLISECONDS.toNanos(longestMs)
  private val most = longest * 3
  private var left = most
  private var leftAt = System.nanoTime() // when `left` was right

  /**
   * Blocks until an idle moment just after a commit. In the middle of a batch, idle moments of this executor do not help: other
   * executors on the same host may be working on the batch. An idle moment at any time will do when four fifths of the longest wait
   * have passed, or when less than the longest wait is left. Returns also when no idle moment comes in time, or when the work `isWanted`
   * no more. Returns at once for a task.
   *
   * @param hasCommitted whether the query has just committed a batch
   */
  def await(isWanted: => Boolean = true, hasCommitted: => Boolean = true): Unit = if (TaskContext.get() == null) {
    val began = System.nanoTime()
    val atMost = take(began)
    def waited = System.nanoTime() - began
    def shortWillDo = hasCommitted || atMost < longest || waited >= longest / 5 * 4
    try IdleDetector.awaitUnless(waited >= atMost || !isWanted, shortWillDo)
    finally giveBack(atMost - waited)
  }

  private def take(now: Long): Long = synchronized {
    left = math.min(most, left + (now - leftAt) / IdleWaitBudget.WaitsAreOneOf)
    leftAt = now
    val taken = math.max(0, math.min(left, longest))
    left -= taken
    taken
  }

  /** Negative when the wait took too long; at most one longest wait counts, as the process may have been stopped. */
  private def giveBack(nanos: Long): Unit = synchronized(left += math.max(nanos, -longest))
}

private object IdleWaitBudget {
  private val WaitsAreOneOf = 20L
}
