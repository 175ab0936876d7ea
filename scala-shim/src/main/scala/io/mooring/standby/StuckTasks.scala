package io.mooring.standby

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

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
 * `spark.network.timeout` (two minutes). Meanwhile it holds a slot that the tasks of the lost executor need, or they wait for its files.
 * A task that is killed here asks anew where the files are, and does not count as failed.
 *
 * Only tasks that began shortly before the loss are killed, as a task reads first, and loses its work when it is killed:
 *
 *  - tasks with state, which read shuffle files;
 *  - tasks before them, which write shuffle files, and tasks of replica queries. They may wait for a broadcast in their first milliseconds,
 *    and hold a slot that a task with state may need. They are killed once at most.
 *
 * Tasks with state read broadcasts as well, but are not killed for that: opening their state again may take long.
 *
 * On the driver: called by Spark's listener thread; a thread of its own kills the tasks. Depends on `PendingTasks`. Without it, a batch
 * takes up to two minutes more after the loss of an executor.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val stages = new ConcurrentHashMap[Int, Boolean]() // stages whose tasks may be killed -> whether they hold state
  private val running = new ConcurrentHashMap[Long, Running]() // tasks of these stages, by task id
  private val silence = new ConcurrentHashMap[String, Long]() // executor that was given up -> how long it was silent, in milliseconds
  private val gone = ConcurrentHashMap.newKeySet[String]() // ids are not used again
  private val forgotten = ConcurrentHashMap.newKeySet[String]() // executors that no task is sent to for files any more

  private val later = Executors.newSingleThreadScheduledExecutor(Daemon.factory("mooring-stuck-tasks"))

  def isSilent(executor: String, forMs: Long): Unit = { silence.put(executor, forMs); () }

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
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (gone.add(removed.executorId)) {
    val loss = lossOf(removed.executorId, removed.time)
    after(StuckTasks.PausesMs.head)(PendingTasks.beginEpoch(context)) // runs before the first look, as one thread runs both
    look(loss, wasSilent = loss.silentMs.isDefined, StuckTasks.PausesMs)
  }

  /** Some cluster managers cause this event well before the other one. */
  override def onBlockManagerRemoved(removed: SparkListenerBlockManagerRemoved): Unit = {
    val executor = removed.blockManagerId.executorId
    if (forgotten.add(executor)) after(StuckTasks.PausesMs.head)(freeTasksWithoutState(lossOf(executor, removed.time)))
  }

  private def lossOf(executor: String, atMs: Long): Loss = Loss(executor, atMs, Option(silence.get(executor)))

  private def after(pauseMs: Long)(free: => Unit): Unit = if (!later.isShutdown) { // the application ends otherwise
    val freeing: Runnable = () => FailOpen.otherwise("freeing of stuck tasks", ())(free)
    later.schedule(freeing, pauseMs, TimeUnit.MILLISECONDS)
    ()
  }

  /** Looks after each pause, until Spark has noted the lost files: mostly after 0.2 s, later when its scheduler is busy. */
  private def look(loss: Loss, wasSilent: Boolean, pauses: List[Long]): Unit =
    for (pause <- pauses.headOption) after(pause)(if (!free(loss, wasSilent)) look(loss, wasSilent = false, pauses.tail))

  /** Kills stuck tasks with state, also those that began after the loss and were still sent to the executor. Whether Spark has noted the loss. */
  private def free(loss: Loss, wasSilent: Boolean): Boolean = {
    PendingTasks.refreshEpochs(context)
    val withState = running.asScala.filter(_._2.holdsState)
    val lacking = withState.values.map(_.stage).toSet.filter(PendingTasks.lackShuffleFiles(context, _))
    kill(loss, withState.collect {
      case (id, task) if task.began >= loss.sinceMs - StuckTasks.ReadingMs && (wasSilent || lacking(task.stage)) => id
    })
    lacking.nonEmpty
  }

  /** Kills stuck tasks without state that have not ended meanwhile. */
  private def freeTasksWithoutState(loss: Loss): Unit = {
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

private final case class Running(stage: Int, holdsState: Boolean, began: Long, isFirst: Boolean)

private final case class Loss(executor: String, atMs: Long, silentMs: Option[Long]) {
  /** When the executor last gave a sign of life, in milliseconds since 1970. */
  def sinceMs: Long = atMs - silentMs.getOrElse(0L)
}

object StuckTasks {
  private val PausesMs = List(200L, 800L, 2000L)
  private val ReadingMs = 10000L
  private val BeginningMs = 500L // Spark notices in 0.05 to 0.15 s that an executor was killed
}
