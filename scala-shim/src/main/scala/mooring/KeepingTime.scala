package io.mooring

import java.util.concurrent.TimeUnit.NANOSECONDS
import java.util.concurrent.atomic.LongAdder

/** How long writing state files took more in this JVM because the host keeps them: by the clock, of all threads together. */
object KeepingTime {
  private val nanos = new LongAdder

  def milliseconds: Long = NANOSECONDS.toMillis(nanos.sum())

  def of[T](body: => T): T = {
    val begin = System.nanoTime()
    try body
    finally nanos.add(System.nanoTime() - begin)
  }

  /** Counts from zero: an executor begins. */
  def begin(): Unit = nanos.reset()
}
