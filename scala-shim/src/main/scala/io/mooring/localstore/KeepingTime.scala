package io.mooring.localstore

import java.util.concurrent.TimeUnit.{NANOSECONDS, SECONDS}
import java.util.concurrent.atomic.{AtomicLong, LongAdder}

import io.mooring.common.Log

/**
 * How long writing state files took more in this JVM because the host keeps them: by the clock, of all threads together.
 * The log tells it now and then, as an executor may be ended without a last word.
 */
object KeepingTime {
  private val nanos, files = new LongAdder
  private val toldAt = new AtomicLong(System.nanoTime())

  def milliseconds: Long = NANOSECONDS.toMillis(nanos.sum())

  def of[T](body: => T): T = {
    val begin = System.nanoTime()
    try body
    finally nanos.add(System.nanoTime() - begin)
  }

  /** The same, of what ends with one file more that is kept. */
  def ofFile[T](body: => T): T =
    try of(body)
    finally {
      files.increment()
      val before = toldAt.get
      val now = System.nanoTime()
      if (now - before > KeepingTime.PauseNanos && toldAt.compareAndSet(before, now))
        Log.info(s"keeping ${files.sum()} files has taken $milliseconds ms of writing state until now")
    }

  /** Counts from zero: an executor begins. */
  def begin(): Unit = {
    nanos.reset()
    files.reset()
  }

  private val PauseNanos = SECONDS.toNanos(20)
}
