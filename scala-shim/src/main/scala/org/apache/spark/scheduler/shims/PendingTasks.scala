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

/** The tasks of running stages that Spark has not started yet, or will start again. */
object PendingTasks {
  sealed trait How
  case object Anew extends How

  /** As Spark hears of the loss: what it would start anywhere goes to the other executor at once; the others' time begins anew. */
  case object HeldBack extends How

  private val FewStages = 4 // each executor that joins asks some times

  /**
   * Has tasks wait for another executor when theirs is gone, or may not have them: else they wait until
   * `spark.locality.wait` has passed, twice, and may then be the first of the cold executor that comes in the place of
   * a lost one. `candidates` names executors (id, host) for each partition of a stage, the most wanted first; None for a
   * stage that is not placed. A task that none of them may have goes to any executor. `isTaken` hears where each task goes.
   */
  def redirect(context: SparkContext, isGone: String => Boolean, how: How)(
      candidates: Int => Option[Int => Seq[(String, String)]])(isTaken: (Int, Int, Option[String]) => Unit): Int =
    context.taskScheduler match {
      case scheduler: TaskSchedulerImpl if Capability.Redirection.isOn =>
        val redirected = scheduler.synchronized {
          val placed = for {
            stage <- scheduler.rootPool.getSortedTaskSetQueue if !stage.isZombie
            those <- candidates(stage.stageId)
          } yield redirect(stage, isGone, how, those)(isTaken(stage.stageId, _, _))
          placed.sum
        }
        if (redirected > 0) scheduler.backend.reviveOffers()
        redirected
      case _ => 0 // somebody else's scheduler
    }

  private def redirect(stage: TaskSetManager, isGone: String => Boolean, how: How, candidates: Int => Seq[(String, String)])(
      isTaken: (Int, Option[String]) => Unit): Int = {
    val pending = stage.pendingTasks
    def partition(task: Int) = stage.tasks(task).partitionId
    def hostOf(task: Int, executor: String) =
      stage.tasks(task).preferredLocations.collectFirst { case at: ExecutorCacheTaskLocation if at.executorId == executor => at.host }
    val found = for {
      (wanted, waiting) <- pending.forExecutor.toSeq
      task <- waiting.toSeq if stage.copiesRunning(task) == 0 && !stage.successful(task) // Spark clears the others away later
      if isGone(wanted) || !Offers.mayHave(stage, task, wanted, hostOf(task, wanted).getOrElse(""))
    } yield (wanted, task, candidates(partition(task)).find { case (id, host) => Offers.mayHave(stage, task, id, host) })
    val isHeld = how == HeldBack && stage.myLocalityLevels.contains(TaskLocality.PROCESS_LOCAL)
    if (!isHeld) for ((wanted, task, to) <- found) {
      pending.forExecutor(wanted) -= task
      to match { // one that is started is passed over
        case Some((executor, _)) => pending.forExecutor.getOrElseUpdate(executor, new ArrayBuffer) += task
        case None => pending.noPrefs += task
      }
      for (preferred <- stage.tasks(task).preferredLocations; onHost <- pending.forHost.get(preferred.host)) onHost -= task
    }
    if (found.nonEmpty) {
      if (!isHeld) stage.recomputeLocality()
      stage.resetDelayScheduleTimer(Some(TaskLocality.PROCESS_LOCAL)) // else it may be as good as over, or over
    }
    if (!isHeld) for ((_, task, to) <- found) {
      prefer(stage.tasks(task), to.map { case (executor, host) => new ExecutorCacheTaskLocation(host, executor) }.toSeq)
      isTaken(partition(task), to.map(_._1))
    }
    if (isHeld) 0 else found.size
  }

  /** A task is told once what it prefers, for all its attempts. */
  private def prefer(task: Task[_], executors: Seq[TaskLocation]): Unit =
    for (field <- SparkInternals.taskPreferredLocations(task)) field.set(task, executors)

  /**
   * Has tasks that start from now on ask where their shuffle files are. An executor remembers that until a task of a newer
   * epoch comes, and a task has the epoch of its stage's beginning, however late it is tried again: it would read from an
   * executor that is gone, and of a silent one wait for `spark.network.timeout`.
   */
  def askAnew(context: SparkContext): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.synchronized {
      val epoch = scheduler.mapOutputTracker.getEpoch
      // What a zombie's last tasks say of lost files is still told apart by their epoch.
      for (stage <- stagesIn(scheduler.rootPool) if !stage.isZombie; task <- stage.tasks) task.epoch = epoch
    }
    case _ => // somebody else's scheduler
  }

  /** Also those without a task that waits: one that runs may fail. */
  private def stagesIn(one: Schedulable): Seq[TaskSetManager] = one match {
    case stage: TaskSetManager => Seq(stage)
    case pool: Pool => pool.schedulableQueue.asScala.toSeq.flatMap(stagesIn)
    case _ => Nil
  }

  /**
   * Once for an executor that is lost: Spark begins an epoch when it has noted the lost files of all shuffles, and tasks were
   * seen that began later and still read what they remembered.
   */
  def beginEpoch(context: SparkContext): Unit = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster].incrementEpoch()
    case _ => // somebody else's scheduler
  }

  /** None of a barrier stage, which begins anew as a whole when one of its tasks is killed. */
  def makesShuffleFiles(stage: StageInfo): Boolean = stage.shuffleDepId.isDefined && !stage.rddInfos.exists(_.isBarrier)

  /** Whether shuffle files that the stage reads are to be made again. */
  def lackShuffleFiles(context: SparkContext, stage: Int): Boolean = writersFor(context, stage).exists(!_.isAvailable)

  /** Whether tasks of running stages would still be told to read shuffle files from this executor. */
  def areSentTo(context: SparkContext, executor: String): Boolean = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl =>
      val running = scheduler.synchronized(scheduler.rootPool.getSortedTaskSetQueue.map(_.taskSet.stageId).toSeq)
      val known = scheduler.mapOutputTracker.asInstanceOf[MapOutputTrackerMaster].shuffleStatuses
      running.flatMap(writersFor(context, _)).flatMap(writer => known.get(writer.shuffleDep.shuffleId))
        .exists(_.withMapStatuses(_.exists(status => status != null && status.location.executorId == executor)))
    case _ => false // somebody else's scheduler
  }

  /**
   * The code of tasks that read shuffles and run just now, of a few stages, each as the id of a broadcast. All files of
   * these shuffles are there, and while the tasks run nobody removes them. None when there is no executor but `joining`,
   * which is not ready yet: nothing will run before it does.
   */
  def codeOfReaders(context: SparkContext, joining: String): Option[Seq[Long]] = (context.taskScheduler, context.schedulerBackend) match {
    case (scheduler: TaskSchedulerImpl, backend: CoarseGrainedSchedulerBackend) if Capability.WarmUpByTasks.isOn && backend.getExecutorIds().exists(_ != joining) =>
      val running = scheduler.synchronized(
        scheduler.rootPool.getSortedTaskSetQueue.filter(stage => !stage.isZombie && stage.runningTasks > 0).toSeq)
      val readers = running.filter { stage =>
        val writers = writersFor(context, stage.taskSet.stageId)
        writers.nonEmpty && writers.forall(_.isAvailable)
      }
      Some(readers.take(FewStages).flatMap(_.tasks.headOption).flatMap(codeOf))
    case _ => None // somebody else's scheduler, or this process alone
  }

  private def codeOf(task: Task[_]): Option[Long] =
    SparkInternals.taskBinary(task).map(_.get(task)).collect { case code: Broadcast[_] => code.id }

  private def writersFor(context: SparkContext, stage: Int): Seq[ShuffleMapStage] =
    context.dagScheduler.stageIdToStage.get(stage).toSeq.flatMap(_.parents).collect { case writer: ShuffleMapStage => writer }
}
