package org.apache.spark.sql.execution.streaming.state.mooring

import java.lang.management.ManagementFactory
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

/**
 * What making a copy anew leaves to the executor's own tasks: after each part of the work its thread rests, three times as
 * long as the processor was at it. All at once would take, of several copies, a second and more of processor time from one
 * batch. For so long from the making of this: then the copy is in a hurry, as its task may need it.
 */
final class Rests(forMs: Long) {
  private val hurriesAt = System.nanoTime() + MILLISECONDS.toNanos(forMs)

  def areOver: Boolean = System.nanoTime() - hurriesAt >= 0

  /** Some of the work, which is not cut off, and the rest after it. */
  def after[T](work: => T): T = {
    val before = Rests.processorNanos()
    val result = work
    val pause = math.min(Rests.For * (Rests.processorNanos() - before), hurriesAt - System.nanoTime())
    if (pause > 0) NANOSECONDS.sleep(pause)
    result
  }
}

object Rests {
  private val For = 3L
  private val threads = ManagementFactory.getThreadMXBean

  /** Of this thread; always the same where the JVM does not tell, so that it never rests. */
  private def processorNanos(): Long = if (threads.isCurrentThreadCpuTimeSupported) threads.getCurrentThreadCpuTime else 0L
}
