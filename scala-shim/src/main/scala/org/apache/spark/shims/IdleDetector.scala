package org.apache.spark.shims

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.util.control.NonFatal

import org.apache.spark.SparkEnv

/**
 * Finds moments in which this executor is idle, for background work that would take processor time from batches. Idle means: no
 * task has run for so long that the next stage of a batch would have started. Tasks of replica queries count as tasks.
 *
 * Called by threads of background work (maintenance, copies), which block here. Nothing is measured while no thread waits.
 * Depends on the gauges `executor.threadpool.activeTasks` and `.completeTasks` of Spark's metrics system. Where they are missing,
 * the executor always counts as idle: background work runs in the middle of batches, as in stock Spark.
 */
private object IdleDetector {
  private val IdleNanos = MILLISECONDS.toNanos(50) // the pause between two stages of a batch is some ten milliseconds
  private val LongIdleNanos = MILLISECONDS.toNanos(2000) // after this, most likely no batch is under way
  private val LookNanos = MILLISECONDS.toNanos(5)
  private val Unknown = -1L

  private val ordinaryWaits = new IdleWaitBudget(longestMs = 1000)

  private var completedTasks = Unknown // at the last look
  private var idleSince = System.nanoTime()

  /** Blocks until the executor is idle, for a second at most. Returns at once for a task, which must not wait for its own end. */
  def await(): Unit = ordinaryWaits.await()

  /**
   * Blocks until the executor is idle, or `isOver`. While `shortWillDo` is false, only an idle time of two seconds counts. Both are
   * evaluated every few milliseconds.
   */
  private[shims] def awaitUnless(isOver: => Boolean, shortWillDo: => Boolean): Unit =
    while (idleNanos < (if (shortWillDo) IdleNanos else LongIdleNanos) && !isOver) NANOSECONDS.sleep(LookNanos)

  private def idleNanos: Long = synchronized {
    // Active tasks are read first: a task that ends between the two reads is counted as completed.
    val (active, completed, now) = (tasks("activeTasks"), tasks("completeTasks"), System.nanoTime())
    if (active > 0 || completed != completedTasks) {
      completedTasks = completed
      idleSince = now
    }
    now - idleSince
  }

  /** The value of one of Spark's gauges; `Unknown` where it is missing. */
  private def tasks(name: String): Long =
    try Option(SparkEnv.get).toSeq.flatMap(_.metricsSystem.getSourcesByName("executor"))
      .flatMap(source => Option(source.metricRegistry.getGauges.get(s"threadpool.$name"))).map(_.getValue)
      .collectFirst { case count: Number => count.longValue }.getOrElse(Unknown)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => Unknown // this Spark has another metrics system
    }
}
