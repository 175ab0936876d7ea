package org.apache.spark.scheduler.mooring

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{ShuffleMapStage, TaskSchedulerImpl}

/** The tasks of running stages that Spark has not started yet, or will start again. */
object PendingTasks {

  /**
   * Has the tasks that wait for a lost executor wait for another one, which `instead` names for stage and partition. What
   * a task prefers is fixed when its stage begins: else it waits until `spark.locality.wait` has passed, twice, and may
   * then be the first task of the cold executor that comes in the place of the lost one.
   */
  def redirect(context: SparkContext, lost: String, host: String)(instead: (Int, Int) => Option[String]): Int =
    context.taskScheduler match {
      case scheduler: TaskSchedulerImpl =>
        val redirected = scheduler.synchronized {
          scheduler.rootPool.getSortedTaskSetQueue.filterNot(_.isZombie).map { stage =>
            val pending = stage.pendingTasks
            val waiting = pending.forExecutor.get(lost).fold(Seq.empty[Int])(_.toSeq)
            val found = for (task <- waiting; executor <- instead(stage.taskSet.stageId, stage.tasks(task).partitionId))
              yield task -> executor
            for ((task, executor) <- found) {
              pending.forExecutor.getOrElseUpdate(executor, new ArrayBuffer) += task // one that is started is passed over
              pending.forHost.get(host).foreach(_ -= task)
            }
            if (found.nonEmpty) stage.recomputeLocality()
            found.size
          }.sum
        }
        if (redirected > 0) scheduler.backend.reviveOffers()
        redirected
      case _ => 0 // somebody else's scheduler
    }

  /**
   * Has tasks that start from now on ask where their shuffle files are. An executor remembers that until a task of a newer
   * epoch comes, and a task has the epoch of its stage's beginning, however late it is tried again: it would read from an
   * executor that is gone, and of a silent one wait for `spark.network.timeout`.
   */
  def askAnew(context: SparkContext): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.synchronized {
      val epoch = scheduler.mapOutputTracker.getEpoch
      for (stage <- scheduler.rootPool.getSortedTaskSetQueue; task <- stage.tasks) task.epoch = epoch
    }
    case _ => // somebody else's scheduler
  }

  /** Whether shuffle files that the stage reads are to be made again. */
  def lackShuffleFiles(context: SparkContext, stage: Int): Boolean =
    context.dagScheduler.stageIdToStage.get(stage).exists(_.parents.exists {
      case writer: ShuffleMapStage => !writer.isAvailable
      case _ => false
    })
}
