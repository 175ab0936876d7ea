package org.apache.spark.shims

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.util.control.NonFatal

import org.apache.spark.{SparkEnv, TaskContext}

/**
 * When this executor runs no task, not even one that leaves orders for copies, and has not for so long that the next stage
 * of a batch would have begun: for work in the background that takes the processors from batches else. It is looked only
 * while somebody waits.
 */
private object IdleDetector {
  private val SinceNanos = MILLISECONDS.toNanos(50) // between two stages there are some ten milliseconds
  private val LongSinceNanos = MILLISECONDS.toNanos(2000) // then no batch is under way, most likely
  private val LookNanos = MILLISECONDS.toNanos(5)
  private val NotTold = -1L

  private val usual = new IdleWaitBudget(longestMs = 1000)

  private var endedTasks = NotTold
  private var quietSince = System.nanoTime()

  /** Returns in such a moment, or when none comes soon. A task does not wait for its own end. */
  def await(): Unit = usual.await()

  /**
   * Returns in such a moment, or when it is over by `isOver`. While `anyWillDo` is not true, only in one that has lasted for
   * long. Both are asked every few milliseconds.
   */
  private[shims] def awaitUnless(isOver: => Boolean, anyWillDo: => Boolean): Unit =
    while (quietNanos < (if (anyWillDo) SinceNanos else LongSinceNanos) && !isOver) NANOSECONDS.sleep(LookNanos)

  private def quietNanos: Long = synchronized {
    // A task that ends between these two is among those that have ended, not among none.
    val (active, ended, now) = (tasks("activeTasks"), tasks("completeTasks"), System.nanoTime())
    if (active > 0 || ended != endedTasks) {
      endedTasks = ended
      quietSince = now
    }
    now - quietSince
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

/**
 * Of all who wait for quiet moments with it: each time for no longer than `longestMs`. Where tasks run all the time they do
 * so for three times as long, and for a twentieth of the time from then on: more would bring nothing.
 */
final class IdleWaitBudget(longestMs: Long) {
  private val longest = MILLISECONDS.toNanos(longestMs)
  private val most = longest * 3
  private var left = most
  private var leftAt = System.nanoTime()

  /**
   * Returns in a quiet moment just after the commit of a batch: while one is under way others may be at it that share the
   * host's processors. Where most of the longest wait has brought none, or there is not so much left, in any quiet moment;
   * and when none comes soon, or when it is not wanted any more.
   */
  def await(isWanted: => Boolean = true, hasCommitted: => Boolean = true): Unit = if (TaskContext.get() == null) {
    val began = System.nanoTime()
    val atMost = taken(began)
    def waited = System.nanoTime() - began
    def anyWillDo = hasCommitted || atMost < longest || waited >= longest / 5 * 4
    try IdleDetector.awaitUnless(waited >= atMost || !isWanted, anyWillDo)
    finally givenBack(atMost - waited)
  }

  private def taken(now: Long): Long = synchronized {
    left = math.min(most, left + (now - leftAt) / IdleWaitBudget.WaitsAreOneOf)
    leftAt = now
    val some = math.max(0, math.min(left, longest))
    left -= some
    some
  }

  /** What was waited too long counts no longer than a wait: the process may have been stopped. */
  private def givenBack(nanos: Long): Unit = synchronized(left += math.max(nanos, -longest))
}

private object IdleWaitBudget {
  private val WaitsAreOneOf = 20L
}
