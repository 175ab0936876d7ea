package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.spark.util.{Clock, SystemClock}

/** The system's clock, for a query that waits for its next trigger: once woken, it waits for none any more. */
private[shims] final class WakingClock extends Clock {
  private val system = new SystemClock
  private val woken = new CountDownLatch(1)

  def wake(): Unit = woken.countDown()

  override def getTimeMillis(): Long = system.getTimeMillis()
  override def nanoTime(): Long = system.nanoTime()

  override def waitTillTime(target: Long): Long = {
    def left = math.min(target - getTimeMillis(), WakingClock.LongestMs) // the time may be set, forth or back
    while (left > 0 && !woken.await(left, TimeUnit.MILLISECONDS)) {}
    getTimeMillis()
  }
}

private object WakingClock {
  private val LongestMs = 1000L
}
