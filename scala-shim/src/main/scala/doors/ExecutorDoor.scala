package org.apache.spark.sql.execution.streaming.state.mooring

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.ExecutorProcessLost
import org.apache.spark.scheduler.cluster.CoarseGrainedClusterMessages.RemoveExecutor
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend

/** What Spark does when an executor's heartbeats stay away, done earlier. */
object ExecutorDoor {
  private val KillMs = 2000L

  /** Whether Spark gives the executor no new tasks, as it is to be removed or decommissioned. */
  def isLeaving(context: SparkContext, executor: String): Boolean = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend => !backend.isExecutorActive(executor)
    case _ => false
  }

  /** Has the executor killed and replaced, and its tasks run elsewhere, whether or not it can be reached. */
  def giveUp(context: SparkContext, executor: String, why: String): Unit = context.schedulerBackend match {
    case backend: CoarseGrainedSchedulerBackend =>
      // Of an executor that was removed the cluster manager is not told; but it may be as silent itself.
      val kill = new Thread(() => { context.killAndReplaceExecutor(executor); () }, s"mooring-kill-executor-$executor")
      kill.setDaemon(true)
      kill.start()
      kill.join(KillMs)
      backend.driverEndpoint.send(RemoveExecutor(executor, ExecutorProcessLost(why)))
    case _ => // a local one is this process
  }
}
