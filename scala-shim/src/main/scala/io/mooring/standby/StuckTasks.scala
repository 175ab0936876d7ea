package io.mooring.standby

import java.util.concurrent.{ConcurrentHashMap, ScheduledThreadPoolExecutor, ThreadPoolExecutor, TimeUnit}

import scala.jdk.CollectionConverters._

import io.mooring.common.{FailOpen, Daemon, Names, Log}
import io.mooring.placement.PlacedStages
import org.apache.spark.SparkContext
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.shims.PendingTasks
import org.apache.spark.sql.execution.streaming.state.shims.Replica

/**
 * Kills tasks of streaming queries that wait for an executor that is gone, so that Spark runs them again. When an executor was killed, a
 * task that reads from it tries once more after `spark.shuffle.io.retryWait`. When an executor is silent, such a task waits for
 * `spark.network.timeout` (two minutes). Meanwhile the task holds a slot that tasks of the lost executor need, or other tasks wait for the
 * files that it writes. The next attempt of a killed task asks the driver where the files are. A killed task does not count as failed.
 *
 * Only tasks that began shortly before the loss are killed, as a task reads first, and loses its work when it is killed:
 *
 *  - tasks with state, which read shuffle files;
 *  - tasks before these, which write shuffle files, and tasks of replica queries. In their first milliseconds they may wait for a
 *    broadcast, and they hold a slot that a task with state may need. Each is killed once at most.
 *
 * Tasks with state read broadcasts, too, but are not killed for that: opening their state again may take long.
 *
 * On the driver: Spark's listener thread calls the `on…` methods, the thread of `Liveness` calls `noteSilence`, and a thread of this object
 * kills the tasks. Depends on `PendingTasks`. Without it, a batch
 * may take two minutes longer after the loss of an executor.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val stages = new ConcurrentHashMap[Int, Boolean]() // stages whose tasks may be killed -> whether they hold state
  private val running = new ConcurrentHashMap[Long, Running]() // tasks of these stages, by task id
  private val silence = new ConcurrentHashMap[String, Long]() // silent executor -> for how long, in milliseconds
  private val removedIds = ConcurrentHashMap.newKeySet[String]() // executors that were removed; ids are not used again
  private val withoutBlocks = ConcurrentHashMap.newKeySet[String]() // executors whose block manager was removed: no task is sent there for files

  // When it is shut down, the application ends: work that comes later is dropped.
  private val later = new ScheduledThreadPoolExecutor(1, Daemon.factory("mooring-stuck-tasks"), new ThreadPoolExecutor.DiscardPolicy)

  /** The executor has been silent for `forMs` milliseconds. Called before Spark removes it. */
  def noteSilence(executor: String, forMs: Long): Unit = { silence.put(executor, forMs); () }

  def stop(): Unit = { later.shutdownNow(); () }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = {
    val stage = submitted.stageInfo
    val query = Option(submitted.properties).filter(_.getProperty(Names.QueryIdProperty) != null)
    val holdsState =
      if (PlacedStages.batchOf(stage).isDefined) Option.when(stage.parentIds.nonEmpty)(true)
      else Option.when(query.exists(PendingTasks.makesShuffleFiles(stage) || Replica.hasStage(_)))(false)
    holdsState.foreach(stages.put(stage.stageId, _))
  }

  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit = stages.remove(completed.stageInfo.stageId)

  override def onTaskStart(start: SparkListenerTaskStart): Unit = for (holdsState <- Option(stages.get(start.stageId))) {
    val task = start.taskInfo
    running.put(task.taskId, Running(start.stageId, holdsState, task.launchTime, isFirst = task.attemptNumber == 0))
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = running.remove(end.taskInfo.taskId)

  /** Acts once for each executor: Kubernetes causes a second event when it deletes the pod of an executor. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (removedIds.add(removed.executorId)) {
    val loss = lossOf(removed.executorId, removed.time)
    after(StuckTasks.PausesMs.head)(PendingTasks.beginEpoch(context)) // runs before the first look, as one thread runs both
    look(loss, wasSilent = loss.silentMs.isDefined, StuckTasks.PausesMs)
  }

  /** Some cluster managers cause this event well before `onExecutorRemoved`. */
  override def onBlockManagerRemoved(removed: SparkListenerBlockManagerRemoved): Unit = {
    val executor = removed.blockManagerId.executorId
    if (withoutBlocks.add(executor)) after(StuckTasks.PausesMs.head)(killTasksWithoutState(lossOf(executor, removed.time)))
  }

  private def lossOf(executor: String, atMs: Long): Loss = Loss(executor, atMs, Option(silence.get(executor)))

  private def after(pauseMs: Long)(work: => Unit): Unit = {
    val guarded: Runnable = () => FailOpen.otherwise("freeing of stuck tasks", ())(work)
    later.schedule(guarded, pauseMs, TimeUnit.MILLISECONDS)
    ()
  }

  /** Kills stuck tasks after each pause, until Spark has noted the lost files: mostly after 0.2 s, later when its scheduler is busy. */
  private def look(loss: Loss, wasSilent: Boolean, pauses: List[Long]): Unit =
    for (pause <- pauses.headOption) after(pause)(if (!killTasksWithState(loss, wasSilent)) look(loss, wasSilent = false, pauses.tail))

  /**
   * Kills stuck tasks with state, also tasks that began after the loss and were still sent to the executor for files. Whether Spark has
   * noted the lost files.
   */
  private def killTasksWithState(loss: Loss, wasSilent: Boolean): Boolean = {
    PendingTasks.refreshEpochs(context)
    val withState = running.asScala.filter(_._2.holdsState)
    val lacking = withState.values.map(_.stage).toSet.filter(PendingTasks.lackShuffleFiles(context, _))
    kill(loss, withState.collect {
      case (id, task) if task.began >= loss.sinceMs - StuckTasks.ReadingMs && (wasSilent || lacking(task.stage)) => id
    })
    lacking.nonEmpty
  }

  /** Kills stuck tasks without state. */
  private def killTasksWithoutState(loss: Loss): Unit = {
    val since = loss.sinceMs - (if (loss.silentMs.isDefined) StuckTasks.ReadingMs else StuckTasks.BeginningMs)
    kill(loss, running.asScala.collect {
      case (id, task) if !task.holdsState && task.isFirst && task.began >= since && task.began <= loss.atMs => id
    })
  }

  private def kill(loss: Loss, stuck: Iterable[Long]): Unit = {
    val why = s"may wait for executor ${loss.executor}, which is gone"
    if (stuck.nonEmpty) Log.info(s"tasks ${stuck.mkString(", ")} $why: they are run again")
    stuck.foreach(context.killTaskAttempt(_, interruptThread = true, why))
  }
}

/** A running task: when it was launched, in milliseconds since 1970, and whether it is its partition's first attempt. */
private final case class Running(stage: Int, holdsState: Boolean, began: Long, isFirst: Boolean)

/** The loss of an executor: when Spark noted it, in milliseconds since 1970, and how long the executor had been silent. */
private final case class Loss(executor: String, atMs: Long, silentMs: Option[Long]) {
  /** The time of the executor's last sign of life, in milliseconds since 1970. */
  def sinceMs: Long = atMs - silentMs.getOrElse(0L)
}

object StuckTasks {
  private val PausesMs = List(200L, 800L, 2000L)
  private val ReadingMs = 10000L
  private val BeginningMs = 500L // Spark notices in 0.05 to 0.15 s that an executor was killed
}
