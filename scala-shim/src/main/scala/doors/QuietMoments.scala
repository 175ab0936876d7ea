package org.apache.spark.sql.execution.streaming.state.mooring

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import org.apache.spark.SparkEnv

/** When this executor runs no task, and has not for long enough that the next stage of a batch would have begun. */
private object QuietMoments {
  private val SinceNanos = MILLISECONDS.toNanos(50) // between two stages there are some ten milliseconds
  private val LookNanos = MILLISECONDS.toNanos(5)

  private var ended = -1L // tasks, when it was looked the last time
  private var since = System.nanoTime()

  /** Returns in such a moment, or when it does not come so soon. */
  def await(atMostNanos: Long): Unit = {
    val began = System.nanoTime()
    while (!isOne && System.nanoTime() - began < atMostNanos) NANOSECONDS.sleep(LookNanos)
  }

  private def isOne: Boolean = synchronized {
    val (now, endedNow) = (System.nanoTime(), tasks("completeTasks"))
    if (tasks("activeTasks") > 0 || endedNow != ended) {
      ended = endedNow
      since = now
    }
    now - since >= SinceNanos
  }

  /** By Spark's own gauges, which a driver that runs tasks itself has not: there each moment counts as quiet. */
  private def tasks(name: String): Long = Option(SparkEnv.get).toSeq.flatMap(_.metricsSystem.getSourcesByName("executor"))
    .flatMap(source => Option(source.metricRegistry.getGauges.get(s"threadpool.$name"))).map(_.getValue)
    .collectFirst { case count: Number => count.longValue }.getOrElse(-1L)
}
