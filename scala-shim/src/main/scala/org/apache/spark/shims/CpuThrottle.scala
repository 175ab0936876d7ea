package org.apache.spark.shims

import java.lang.management.ManagementFactory
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

/**
 * What making a copy anew leaves to the executor's own tasks: each part of the work waits for a moment without any, if one
 * comes, and after it its thread rests, three times as long as the processor was at it. All at once would take, of several
 * copies, a second and more of processor time from one batch. For so long from the making of this: then the copy is in a
 * hurry, as its task may need it.
 */
final class CpuThrottle(forMs: Long) {
  private val hurriesAt = System.nanoTime() + MILLISECONDS.toNanos(forMs)

  def areOver: Boolean = leftNanos <= 0

  /** Some of the work, which is not cut off, with the wait before it and the rest after it. */
  def around[T](work: => T): T = {
    if (!areOver) IdleDetector.await()
    val before = CpuThrottle.processorNanos()
    val result = work
    val pause = math.min(CpuThrottle.For * (CpuThrottle.processorNanos() - before), leftNanos)
    if (pause > 0) NANOSECONDS.sleep(pause)
    result
  }

  private def leftNanos: Long = hurriesAt - System.nanoTime()
}

object CpuThrottle {
  private val For = 3L
  private val threads = ManagementFactory.getThreadMXBean

  /** Of this thread; always the same where the JVM does not tell, so that it never rests. */
  private def processorNanos(): Long = if (threads.isCurrentThreadCpuTimeSupported) threads.getCurrentThreadCpuTime else 0L
}
