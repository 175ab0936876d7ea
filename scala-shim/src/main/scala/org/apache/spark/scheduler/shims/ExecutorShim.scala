package org.apache.spark.scheduler.shims

import java.nio.file.Path

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.{ExecutorProcessLost, TaskSchedulerImpl}
import org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages.RemoveExecutor
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.util.Utils

/** What Spark does when an executor's heartbeats stay away, done earlier. */
object ExecutorShim {
  private val KillMs = 2000L
  private val LookMs = 10L

  /** Whether this executor shares the driver's JVM, as in local mode. */
  def isInDriver(executor: String): Boolean = executor == SparkContext.DRIVER_IDENTIFIER

  /** Whether Spark gives the executor no new tasks, as it is to be removed or decommissioned. */
  def isLeaving(context: SparkContext, executor: String): Boolean = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend => !backend.isExecutorActive(executor)
    case _ => false
  }

  /** Where the state stores of this executor are open. */
  def localDirectory(conf: SparkConf): Path = Path.of(Utils.getLocalDir(conf))

  /** All such executors that are still there. */
  def leaving(context: SparkContext): Set[String] = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend => backend.getExecutorIds().filterNot(backend.isExecutorActive).toSet
    case _ => Set.empty
  }

  /** Has the executor killed and replaced, and its tasks run elsewhere, whether or not it can be reached. */
  def giveUp(context: SparkContext, executor: String, why: String): Unit = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend => aside(s"mooring-give-up-$executor") {
      // Of an executor that was removed the cluster manager is not told; but it may be as silent itself.
      aside(s"mooring-kill-$executor")(context.killAndReplaceExecutor(executor)).join(KillMs)
      backend.driverEndpoint.send(RemoveExecutor(executor, ExecutorProcessLost(why, causedByApp = false)))
    }
    case _ => // a local one is this process
  }

  /**
   * Has the executor killed and replaced at a moment when no task runs on it, best when no job runs at all: then nobody
   * reads its shuffle files. Returns when that is done, when it can not be done, or when no such moment has come.
   */
  def restartWhenIdle(context: SparkContext, executor: String, waitAtMostMs: Long): Unit =
    (context.schedulerBackend, context.taskScheduler) match {
      case (backend: CoarseGrainedSchedulerBackend, scheduler: TaskSchedulerImpl) =>
        val began = System.nanoTime()
        def waitedMs = (System.nanoTime() - began) / 1000000
        def mayEnd = !scheduler.isExecutorBusy(executor) && (context.statusTracker.getActiveJobIds().isEmpty || waitedMs > waitAtMostMs / 3)
        def isEnding = mayEnd &&
          backend.killExecutors(Seq(executor), adjustTargetNumExecutors = false, countFailures = false, force = false).nonEmpty
        while (!context.isStopped && waitedMs < waitAtMostMs && backend.isExecutorActive(executor) && !isEnding) Thread.sleep(LookMs)
      case _ => // a local one is this process
    }

  private def aside(name: String)(body: => Unit): Thread = {
    val thread = new Thread(() => body, name)
    thread.setDaemon(true)
    thread.start()
    thread
  }
}
