package org.apache.spark.shims

import java.lang.management.ManagementFactory
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

/**
 * Slows the making of a copy down, so that the executor's own tasks keep most of the processor time. Before each part of the work the
 * thread waits for an idle moment, a second at most. After the part it sleeps three times as long as the part used the processor. Without
 * this, making several copies takes a second and more of processor time from one batch.
 *
 * Called by the threads that fetch and open copies, which block here. Depends on the JVM's count of a thread's processor time;
 * where there is none, the thread does not sleep.
 *
 * @param forMs after this time since the making of this object nothing is throttled, as the copy's task may need the copy
 */
final class CpuThrottle(forMs: Long) {
  private val endsAt = System.nanoTime() + MILLISECONDS.toNanos(forMs)

  def isOver: Boolean = leftNanos <= 0

  /** Runs one part of the work, which is never cut, with the wait before it and the sleep after it. */
  def run[T](work: => T): T = {
    if (!isOver) IdleDetector.await()
    val before = CpuThrottle.processorNanos()
    val result = work
    val sleep = math.min(CpuThrottle.SleepPerWork * (CpuThrottle.processorNanos() - before), leftNanos)
    if (sleep > 0) NANOSECONDS.sleep(sleep)
    result
  }

  private def leftNanos: Long = endsAt - System.nanoTime()
}

object CpuThrottle {
  private val SleepPerWork = 3L
  private val threads = ManagementFactory.getThreadMXBean

  /** The processor time of this thread; always 0 where the JVM does not count it. */
  private def processorNanos(): Long = if (threads.isCurrentThreadCpuTimeSupported) threads.getCurrentThreadCpuTime else 0L
}
