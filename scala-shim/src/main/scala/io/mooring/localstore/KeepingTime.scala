package io.mooring.localstore

import java.util.concurrent.TimeUnit.{NANOSECONDS, SECONDS}
import java.util.concurrent.atomic.{AtomicLong, LongAdder}

import io.mooring.common.Log

/**
 * How much longer writing state files took in this JVM because the host keeps them: wall-clock time, summed over all threads. It is logged
 * every 20 s, as an executor may be killed before it could log a total.
 */
object KeepingTime {
  private val nanos, files = new LongAdder
  private val loggedAt = new AtomicLong(System.nanoTime())

  def milliseconds: Long = NANOSECONDS.toMillis(nanos.sum())

  def of[T](body: => T): T = {
    val begin = System.nanoTime()
    try body
    finally nanos.add(System.nanoTime() - begin)
  }

  /** The same, for work that keeps one file. */
  def ofFile[T](body: => T): T =
    try of(body)
    finally {
      files.increment()
      val before = loggedAt.get
      val now = System.nanoTime()
      if (now - before > KeepingTime.PauseNanos && loggedAt.compareAndSet(before, now))
        Log.info(s"keeping ${files.sum()} files has taken $milliseconds ms of writing state until now")
    }

  /** Resets the counts. Called at the start of an executor. */
  def begin(): Unit = {
    nanos.reset()
    files.reset()
  }

  private val PauseNanos = SECONDS.toNanos(20)
}
