package org.apache.spark.scheduler.shims

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.{MapOutputTrackerMaster, SparkContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.scheduler.{
  ExecutorCacheTaskLocation, Pool, Schedulable, ShuffleMapStage, StageInfo, Task, TaskLocality, TaskLocation, TaskSchedulerImpl,
  TaskSetManager}
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.shims.{Capability, SparkInternals}

/**
 * The tasks of running stages that Spark has not started yet, or will start again.
 *
 * Threads: a redirection at `AtLoss` is called with the scheduler's lock, one that is `Immediate` without it. Threads of the driver plugin,
 * Spark's listener threads and RPC threads call the other methods, without that lock.
 *
 * Depends on `TaskSetManager.pendingTasks`, `Task.preferredLocs`, `MapOutputTrackerMaster` and `DAGScheduler.stageIdToStage` in Spark
 * 4.0 to 4.3. Without these, tasks of a lost executor wait twice for `spark.locality.wait`: first `.process`, then `.node`.
 */
object PendingTasks {
  /** When a redirection happens, which decides how it is done. */
  sealed trait Moment

  /** The waiting tasks prefer another executor from now on. */
  case object Immediate extends Moment

  /**
   * The scheduler has just noted the loss of an executor. There are two kinds of stages:
   *
   *  - The stage also has tasks that wait for living executors. Its waiting tasks keep their preference for now, and their locality wait
   *    starts again. They are redirected when Spark has noted the lost shuffle files: see `ClusterWatch.onExecutorRemoved`.
   *  - The stage has no such tasks. Spark would start its waiting tasks anywhere, so these tasks prefer another executor from now on.
   */
  case object AtLoss extends Moment

  private val MostStagesOfReaders = 4 // in one answer of `codeOfReaders`: each executor that joins asks several times

  /**
   * Makes waiting tasks prefer another executor when they must leave their executor, or it may not run them. Otherwise these tasks wait
   * twice for `spark.locality.wait`, and may then start on the cold executor that replaces a lost one. Returns how many tasks were
   * redirected.
   *
   * @param mustLeave  whether waiting tasks are to leave this executor
   * @param candidates for a stage: executors (id, host) for each partition, the best first; None for a stage that is not placed. A task
   *                   that no candidate may run goes to any executor
   * @param redirected called with stage, partition and the new executor, None for any
   */
  def redirect(context: SparkContext, mustLeave: String => Boolean, moment: Moment)(
      candidates: Int => Option[Int => Seq[(String, String)]])(redirected: (Int, Int, Option[String]) => Unit): Int =
    context.taskScheduler match {
      case scheduler: TaskSchedulerImpl if Capability.Redirection.isOn =>
        val count = scheduler.synchronized {
          val placed = for {
            stage <- scheduler.rootPool.getSortedTaskSetQueue if !stage.isZombie
            ofStage <- candidates(stage.stageId)
          } yield redirect(stage, mustLeave, moment, ofStage)(redirected(stage.stageId, _, _))
          placed.sum
        }
        if (count > 0) scheduler.backend.reviveOffers()
        count
      case _ => 0 // the application has another scheduler
    }

  private def redirect(stage: TaskSetManager, mustLeave: String => Boolean, moment: Moment, candidates: Int => Seq[(String, String)])(
      redirected: (Int, Option[String]) => Unit): Int = {
    val pending = stage.pendingTasks
    def partition(task: Int) = stage.tasks(task).partitionId
    def hostOf(task: Int, executor: String) =
      stage.tasks(task).preferredLocations.collectFirst { case at: ExecutorCacheTaskLocation if at.executorId == executor => at.host }
    val toRedirect = for {
      (wanted, waiting) <- pending.forExecutor.toSeq
      // Tasks that run, or have ended well, are in this list until Spark comes across them.
      task <- waiting.toSeq if stage.copiesRunning(task) == 0 && !stage.successful(task)
      if mustLeave(wanted) || !Withholding.mayRun(stage, task, wanted, hostOf(task, wanted).getOrElse(""))
    } yield (wanted, task, candidates(partition(task)).find { case (id, host) => Withholding.mayRun(stage, task, id, host) })
    val keepsPreference = moment == AtLoss && stage.myLocalityLevels.contains(TaskLocality.PROCESS_LOCAL)
    if (!keepsPreference) for ((wanted, task, to) <- toRedirect) {
      pending.forExecutor(wanted) -= task
      to match { // Spark skips a task that was started meanwhile
        case Some((executor, _)) => pending.forExecutor.getOrElseUpdate(executor, new ArrayBuffer) += task
        case None => pending.noPrefs += task
      }
      for (preferred <- stage.tasks(task).preferredLocations; onHost <- pending.forHost.get(preferred.host)) onHost -= task
    }
    if (toRedirect.nonEmpty) {
      if (!keepsPreference) stage.recomputeLocality()
      stage.resetDelayScheduleTimer(Some(TaskLocality.PROCESS_LOCAL)) // otherwise the wait may be over already
    }
    if (!keepsPreference) for ((_, task, to) <- toRedirect) {
      prefer(stage.tasks(task), to.map { case (executor, host) => new ExecutorCacheTaskLocation(host, executor) }.toSeq)
      redirected(partition(task), to.map(_._1))
    }
    if (keepsPreference) 0 else toRedirect.size
  }

  /** Sets the preferred locations of a task, which hold for all its attempts. */
  private def prefer(task: Task[_], executors: Seq[TaskLocation]): Unit =
    for (field <- SparkInternals.taskPreferredLocations(task)) field.set(task, executors)

  /**
   * Makes tasks that start from now on ask the driver where their shuffle files are. An executor remembers the driver's answer until a task
   * of a newer epoch comes. Stock Spark gives a task the epoch in which its stage began, also for later attempts. Such an attempt would
   * read from an executor that is gone. If that executor is silent, the attempt would wait for `spark.network.timeout`.
   */
  def refreshEpochs(context: SparkContext): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.synchronized {
      val epoch = scheduler.mapOutputTracker.getEpoch
      // Not in zombie stages: by the epoch, Spark tells whether a failure of their last tasks is about files that were lost since.
      for (stage <- stagesIn(scheduler.rootPool) if !stage.isZombie; task <- stage.tasks) task.epoch = epoch
    }
    case _ => // the application has another scheduler
  }

  /** All stages, also those without a waiting task: a running task may fail. */
  private def stagesIn(entry: Schedulable): Seq[TaskSetManager] = entry match {
    case stage: TaskSetManager => Seq(stage)
    case pool: Pool => pool.schedulableQueue.asScala.toSeq.flatMap(stagesIn)
    case _ => Nil
  }

  /**
   * Begins an epoch. Called once for each lost executor. Spark begins an epoch itself when it has noted the lost files of all shuffles; but
   * tasks that began after that were seen to use old answers.
   */
  def beginEpoch(context: SparkContext): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster].incrementEpoch()
    case _ => // the application has another scheduler
  }

  /** Whether the stage writes shuffle files. False for a barrier stage, which starts again as a whole when one of its tasks is killed. */
  def makesShuffleFiles(stage: StageInfo): Boolean = stage.shuffleDepId.isDefined && !stage.rddInfos.exists(_.isBarrier)

  /** Whether shuffle files that the stage reads are missing, and are to be written again. */
  def lackShuffleFiles(context: SparkContext, stage: Int): Boolean = writersFor(context, stage).exists(!_.isAvailable)

  /** Whether the driver still lists this executor as the place of shuffle files that running stages read. */
  def isListedForShuffleFiles(context: SparkContext, executor: String): Boolean = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl =>
      val running = scheduler.synchronized(scheduler.rootPool.getSortedTaskSetQueue.map(_.taskSet.stageId).toSeq)
      val known = scheduler.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster].shuffleStatuses
      running.flatMap(writersFor(context, _)).flatMap(writer => known.get(writer.shuffleDep.shuffleId))
        .exists(_.withMapStatuses(_.exists(status => status != null && status.location.executorId == executor)))
    case _ => false // the application has another scheduler
  }

  /**
   * The code of running tasks that read shuffles, for a few stages, each as the id of a broadcast. All files of these shuffles exist, and
   * stay while the tasks run. None when `joining`, which is not ready yet, is the only executor: nothing runs before it is ready.
   */
  def codeOfReaders(context: SparkContext, joining: String): Option[Seq[Long]] = (context.taskScheduler, context.schedulerBackend) match {
    case (scheduler: TaskSchedulerImpl, backend: CoarseGrainedSchedulerBackend)
        if Capability.WarmUpByTasks.isOn && backend.getExecutorIds().exists(_ != joining) =>
      val running = scheduler.synchronized(
        scheduler.rootPool.getSortedTaskSetQueue.filter(stage => !stage.isZombie && stage.runningTasks > 0).toSeq)
      val readers = running.filter { stage =>
        val writers = writersFor(context, stage.taskSet.stageId)
        writers.nonEmpty && writers.forall(_.isAvailable)
      }
      Some(readers.take(MostStagesOfReaders).flatMap(_.tasks.headOption).flatMap(codeOf))
    case _ => None // the application has another scheduler, or local mode
  }

  private def codeOf(task: Task[_]): Option[Long] =
    SparkInternals.taskBinary(task).map(_.get(task)).collect { case code: Broadcast[_] => code.id }

  private def writersFor(context: SparkContext, stage: Int): Seq[ShuffleMapStage] =
    UnlockedMap.entry(context.dagScheduler.stageIdToStage.get(stage)).toSeq.flatMap(_.parents).collect { case writer: ShuffleMapStage => writer }
}
