package org.apache.spark.scheduler.shims

/**
 * Reads of a map that Spark's scheduler changes on its own thread, without a lock. A read while the map grows may fail, or miss an entry
 * that is there. Called by any thread that is not the scheduler's.
 */
private[shims] object UnlockedMap {
  private val Attempts = 3
  private val PauseMs = 1L // a map grows in microseconds

  /** What `read` finds, which gets an entry of such a map; None when several attempts have found nothing. */
  def entry[T](read: => Option[T]): Option[T] = {
    def attempt: Option[T] =
      try read
      catch { case _: IndexOutOfBoundsException => None }
    var (found, left) = (attempt, Attempts - 1)
    while (found.isEmpty && left > 0) {
      Thread.sleep(PauseMs)
      found = attempt
      left -= 1
    }
    found
  }
}
