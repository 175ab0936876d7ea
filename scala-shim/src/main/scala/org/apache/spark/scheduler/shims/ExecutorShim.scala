package org.apache.spark.scheduler.shims

import java.nio.file.Path

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.{ExecutorProcessLost, TaskSchedulerImpl}
import org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages.RemoveExecutor
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.util.Utils

/**
 * Executors as Spark's scheduler knows them: which ones leave, and how one is removed or restarted. Called by threads of the plugins.
 * Depends on `CoarseGrainedSchedulerBackend` of Spark 4.0 to 4.3. In local mode it does nothing. Without it an executor that is silent is
 * removed only after Spark's own timeout.
 */
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

  /** The directory in which this executor has its open state stores. */
  def localDirectory(conf: SparkConf): Path = Path.of(Utils.getLocalDir(conf))

  /** All executors that Spark still knows and that get no new tasks, as they are to be removed or decommissioned. */
  def leaving(context: SparkContext): Set[String] = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend => backend.getExecutorIds().filterNot(backend.isExecutorActive).toSet
    case _ => Set.empty
  }

  /**
   * Kills the executor, and starts another one. Its tasks run elsewhere. Works also when the executor can not be reached. Returns at once.
   */
  def killAndReplace(context: SparkContext, executor: String, why: String): Unit = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend => inBackground(s"mooring-replace-$executor") {
      // Before `RemoveExecutor`: after that the cluster manager is not asked any more to kill it. It may not answer, so the wait is limited.
      inBackground(s"mooring-kill-$executor")(context.killAndReplaceExecutor(executor)).join(KillMs)
      backend.driverEndpoint.send(RemoveExecutor(executor, ExecutorProcessLost(why, causedByApp = false)))
    }
    case _ => // in local mode the executor is this process
  }

  /**
   * Kills the executor at a moment when no task runs on it, and starts another one. In the first third of `waitAtMostMs` no job may run
   * either, so that no task reads the executor's shuffle files. Blocks until the executor is ending, or `waitAtMostMs` have passed.
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
      case _ => // in local mode the executor is this process
    }

  private def inBackground(name: String)(body: => Unit): Thread = {
    val thread = new Thread(() => body, name)
    thread.setDaemon(true)
    thread.start()
    thread
  }
}
