package org.apache.spark.scheduler.shims

import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{ExecutorLossReason, Pool, Schedulable, SchedulingMode, TaskSchedulerImpl, TaskSetManager}

/**
 * Notices the loss of an executor at the moment when the executor's tasks are pending again, and none of them has started elsewhere. Spark
 * calls its listeners a moment later, when each task may already run wherever a slot was free. Notices also that an executor is to be
 * decommissioned.
 *
 * The watch is an entry in the queue of the scheduler's root pool, beside the stages, and has no tasks. Spark calls `executorLost` of
 * each entry, in the order of the queue. The stages have to come first. So a watch that is not the last entry moves to the end of the
 * queue, where Spark calls it once more.
 *
 * With `spark.scheduler.mode=FAIR`, Spark's page of stages shows the watch as a pool `mooring` that is always empty.
 *
 * Called by Spark's scheduler threads, with the scheduler's lock. Depends on `Pool.schedulableQueue` and on the order of calls in
 * `Pool.executorLost`. Without the watch, tasks of a lost executor may be started where no copy of their state is.
 */
private final class LossWatch(pool: Pool, lost: String => Unit, decommissioned: () => Unit) extends Schedulable {
  override var parent: Pool = pool

  override def executorLost(executor: String, host: String, reason: ExecutorLossReason): Unit =
    if (isLast) lost(executor)
    else {
      pool.schedulableQueue.remove(this)
      pool.schedulableQueue.add(this)
      ()
    }

  private def isLast: Boolean = {
    var last: Schedulable = null
    pool.schedulableQueue.forEach(last = _)
    last eq this
  }

  override def schedulableQueue: ConcurrentLinkedQueue[Schedulable] = null // as Spark's stages have it
  override def schedulingMode: SchedulingMode.SchedulingMode = SchedulingMode.NONE
  override def weight: Int = 1
  override def minShare: Int = 0
  override def runningTasks: Int = 0
  override def priority: Int = Int.MaxValue
  override def stageId: Int = -1
  override def name: String = "mooring"
  override def isSchedulable: Boolean = true
  override def addSchedulable(schedulable: Schedulable): Unit = ()
  override def removeSchedulable(schedulable: Schedulable): Unit = ()
  override def getSchedulableByName(name: String): Schedulable = null
  override def executorDecommission(executor: String): Unit = decommissioned()
  override def checkSpeculatableTasks(minTimeToSpeculation: Long): Boolean = false
  override def getSortedTaskSetQueue: ArrayBuffer[TaskSetManager] = ArrayBuffer.empty
}

object LossWatch {
  /**
   * Calls `lost` with the id of each lost executor, and `decommissioned` when an executor is to be decommissioned. Both are called with
   * the scheduler's lock, and must not block or throw. Spark notes the decommission after the call, before it releases the lock.
   */
  def begin(context: SparkContext, lost: String => Unit, decommissioned: () => Unit): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl =>
      scheduler.rootPool.schedulableQueue.add(new LossWatch(scheduler.rootPool, lost, decommissioned))
      ()
    case _ => // the application has another scheduler
  }
}
