package org.apache.spark.sql.execution.streaming.state.mooring

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS, SECONDS}

import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, TaskContext}

/**
 * When this executor runs no task, not even one that leaves orders for copies, and has not for so long that the next stage
 * of a batch would have begun: for work in the background that takes the processors from batches else. It is looked only
 * while somebody waits. Where tasks run all the time all who wait do so for a twentieth of it together: more would bring
 * nothing.
 */
private object QuietMoments {
  private val SinceNanos = MILLISECONDS.toNanos(50) // between two stages there are some ten milliseconds
  private val LookNanos = MILLISECONDS.toNanos(5)
  private val WaitsAreOneOf = 20L
  private val NotTold = -1L

  private val short = new Patience(SECONDS.toNanos(1), SECONDS.toNanos(3))
  private val long = new Patience(SECONDS.toNanos(5), SECONDS.toNanos(15))

  private var endedTasks = NotTold
  private var quietSince = System.nanoTime()

  /** Returns in such a moment, or when none comes soon. A task does not wait for its own end. */
  def await(): Unit = awaitWith(short)

  /** The same before work that is seldom, and may take a second of a processor: for the end of a batch of some seconds. */
  def awaitLong(): Unit = awaitWith(long)

  private def awaitWith(patience: Patience): Unit = if (TaskContext.get() == null) {
    val began = System.nanoTime()
    val atMost = patience.taken(began)
    try while (!isQuiet && System.nanoTime() - began < atMost) NANOSECONDS.sleep(LookNanos)
    finally patience.givenBack(atMost - (System.nanoTime() - began))
  }

  /** Of all who wait so: each time no longer than `longestWait`, and until more has come `mostLeft`. */
  private final class Patience(longestWait: Long, mostLeft: Long) {
    private var leftNanos = mostLeft
    private var leftAt = System.nanoTime()

    def taken(now: Long): Long = synchronized {
      leftNanos = math.min(mostLeft, leftNanos + (now - leftAt) / WaitsAreOneOf)
      leftAt = now
      val some = math.max(0, math.min(leftNanos, longestWait))
      leftNanos -= some
      some
    }

    /** What was waited too long counts no longer than a wait: the process may have been stopped. */
    def givenBack(nanos: Long): Unit = synchronized(leftNanos += math.max(nanos, -longestWait))
  }

  private def isQuiet: Boolean = synchronized {
    // A task that ends between these two is among those that have ended, not among none.
    val (active, ended, now) = (tasks("activeTasks"), tasks("completeTasks"), System.nanoTime())
    if (active > 0 || ended != endedTasks) {
      endedTasks = ended
      quietSince = now
    }
    now - quietSince >= SinceNanos
  }

  /** By Spark's own gauges. A process that has them not counts as quiet. */
  private def tasks(name: String): Long =
    try Option(SparkEnv.get).toSeq.flatMap(_.metricsSystem.getSourcesByName("executor"))
      .flatMap(source => Option(source.metricRegistry.getGauges.get(s"threadpool.$name"))).map(_.getValue)
      .collectFirst { case count: Number => count.longValue }.getOrElse(NotTold)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => NotTold // another Spark's: nobody waits
    }
}
