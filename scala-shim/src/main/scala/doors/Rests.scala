package org.apache.spark.sql.execution.streaming.state.mooring

import java.lang.management.ManagementFactory
import java.util.concurrent.TimeUnit.{NANOSECONDS, SECONDS}
import java.util.concurrent.locks.ReentrantLock

/**
 * What copies that are made anew leave to the executor's own tasks: one of an executor's is worked at at a time, part by
 * part, and after each part nobody works for three times as long as the processor was at it. All at once would take a
 * second and more of processor time from one batch. For some seconds from the making of this: then the copy is in a
 * hurry, as its task may need it, and waits for nobody.
 */
final class Rests {
  private val hurriesAt = System.nanoTime() + Rests.MostNanos

  /** Some of the work, which is not cut off; the rest comes after it. */
  def between[T](work: => T): T = {
    val hasTurn = Rests.turn.tryLock(math.max(0, hurriesAt - System.nanoTime()), NANOSECONDS)
    try {
      val before = Rests.processorNanos()
      val result = work
      if (hasTurn) rest(Rests.processorNanos() - before)
      result
    } finally if (hasTurn) Rests.turn.unlock()
  }

  private def rest(worked: Long): Unit = {
    val pause = math.min(Rests.For * worked, hurriesAt - System.nanoTime())
    if (pause > 0) NANOSECONDS.sleep(pause)
  }
}

private object Rests {
  private val For = 3L
  private val MostNanos = SECONDS.toNanos(10)
  private val turn = new ReentrantLock
  private val threads = ManagementFactory.getThreadMXBean

  /** Of this thread; always the same where the JVM does not tell, so that it never rests. */
  private def processorNanos(): Long = if (threads.isCurrentThreadCpuTimeSupported) threads.getCurrentThreadCpuTime else 0L
}
