package org.apache.spark.scheduler.shims

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{HealthTracker, TaskSchedulerImpl, TaskSetManager}

/**
 * From which living executors Spark withholds tasks. Called by threads of the driver plugin. Depends on `HealthTracker` and
 * `TaskSetExcludelist` in Spark 4.0 to 4.3; without it the plan may place tasks on executors that get none.
 */
object Withholding {
  val ToBeRemoved = "it is to be removed" // the reason for an executor that has no fault

  /** The executors of `living` (id to host) that get no tasks, each with the reason. Waits for the scheduler's lock. */
  def executors(context: SparkContext, living: Map[String, String]): Map[String, String] = {
    val excluded = context.taskScheduler match {
      case scheduler: TaskSchedulerImpl => scheduler.synchronized {
        for (health <- scheduler.healthTrackerOpt.toSeq; (id, host) <- living; why <- whyExcluded(health, id, host)) yield id -> why
      }
      case _ => Nil // the application has another scheduler, or none yet
    }
    val toBeRemoved = ExecutorShim.leaving(context).filter(living.contains).map(_ -> ToBeRemoved)
    toBeRemoved.toMap ++ excluded
  }

  private def whyExcluded(health: HealthTracker, id: String, host: String): Option[String] =
    if (health.isNodeExcluded(host)) Some(s"Spark has excluded its host $host after failures")
    else if (health.isExecutorExcluded(id)) Some("Spark has excluded it after failures")
    else None

  /** Whether the executor may run this task of the stage. Called with the scheduler's lock. */
  private[shims] def mayRun(stage: TaskSetManager, task: Int, id: String, host: String): Boolean = {
    val isExcluded = stage.taskSetExcludelistHelperOpt.exists { failures =>
      failures.isNodeExcludedForTaskSet(host) || failures.isExecutorExcludedForTaskSet(id) ||
        failures.isNodeExcludedForTask(host, task) || failures.isExecutorExcludedForTask(id, task)
    }
    !isExcluded && stage.taskAttempts(task).count(attempt => attempt.executorId == id && attempt.failed) < MostFailures
  }

  private val MostFailures = 2 // Spark fails a stage after four failures of one task; where a disk is full, each attempt fails
}
