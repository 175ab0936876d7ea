package org.apache.spark.scheduler.shims

import java.util.concurrent.ConcurrentLinkedQueue

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{ExecutorLossReason, Pool, Schedulable, SchedulingMode, TaskSchedulerImpl, TaskSetManager}

/**
 * Hears that an executor is about to go; and that one is lost when its tasks wait again and none of them has been started
 * anew: listeners hear of it a moment later, when each may run already wherever a slot was free.
 *
 * It stands among the scheduler's pools and stages, which hear of losses one after the other, with the scheduler's lock;
 * it has no tasks, and the word to those after it comes first: it goes behind them, and is told again.
 */
private final class LossWatch(pool: Pool, lost: String => Unit, leaves: () => Unit) extends Schedulable {
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

  override def schedulableQueue: ConcurrentLinkedQueue[Schedulable] = null // as stages have it
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
  override def executorDecommission(executor: String): Unit = leaves()
  override def checkSpeculatableTasks(minTimeToSpeculation: Long): Boolean = false
  override def getSortedTaskSetQueue: ArrayBuffer[TaskSetManager] = ArrayBuffer.empty
}

object LossWatch {
  /**
   * Both are called with the scheduler's lock: they wait for nothing, and throw nothing. Spark notes that an executor
   * leaves a moment after `leaves`, before it lets go of the lock.
   */
  def begin(context: SparkContext, lost: String => Unit, leaves: () => Unit): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl =>
      scheduler.rootPool.schedulableQueue.add(new LossWatch(scheduler.rootPool, lost, leaves))
      ()
    case _ => // somebody else's scheduler
  }
}
