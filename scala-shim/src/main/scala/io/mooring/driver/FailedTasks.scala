package io.mooring.driver

/**
 * Decides whether the failure of a task calls for a redirection of waiting tasks. A redirection looks at all waiting tasks. It covers each
 * failure that Spark's scheduler had noted when the redirection began: a burst of failures then needs few of them.
 *
 * Called by Spark's listener thread. Spark's scheduler notes a failure with its lock, which a redirection takes as well.
 */
private[driver] final class FailedTasks {
  private var coveredUntilMs = 0L // when the last redirection after a failure began

  /** Whether a redirection is to begin now (`nowMs`), after a failure at `failedMs`: milliseconds since 1970, by the driver's clock. */
  def needRedirection(failedMs: Long, nowMs: Long): Boolean = {
    val isDue = failedMs >= coveredUntilMs || nowMs < coveredUntilMs // the clock may have been set back
    if (isDue) coveredUntilMs = nowMs
    isDue
  }
}
