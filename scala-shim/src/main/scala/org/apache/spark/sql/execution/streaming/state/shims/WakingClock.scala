package org.apache.spark.sql.execution.streaming.state.shims

import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.spark.util.{Clock, SystemClock}

/**
 * The system's clock for a query's triggers. After `wake` the query does not wait for its next trigger. Called by the stream's
 * thread; `wake` by any. Depends on `StreamExecution.triggerClock`. Without it a drain waits for the next trigger.
 */
private[shims] final class WakingClock extends Clock {
  private val system = new SystemClock
  private val woken = new CountDownLatch(1)

  def wake(): Unit = woken.countDown()

  override def getTimeMillis(): Long = system.getTimeMillis()
  override def nanoTime(): Long = system.nanoTime()

  override def waitTillTime(target: Long): Long = {
    def left = math.min(target - getTimeMillis(), WakingClock.LongestMs) // at most a second at a time: the system's time may be changed
    while (left > 0 && !woken.await(left, TimeUnit.MILLISECONDS)) {}
    getTimeMillis()
  }
}

private object WakingClock {
  private val LongestMs = 1000L
}
