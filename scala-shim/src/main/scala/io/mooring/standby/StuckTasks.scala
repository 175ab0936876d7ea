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
 * Frees tasks of streaming queries that wait for an executor that is gone. A task that had begun to read from it asks once
 * more after `spark.shuffle.io.retryWait` when it was killed, and waits for `spark.network.timeout` (two minutes) when it
 * fell silent. Meanwhile it holds a slot that the tasks of the lost executor are to have, or these wait for its files. It is
 * run again, and asks anew where that is; to be killed so does not count as a failure.
 *
 * Only tasks that began not long before the loss are meant: reading comes first, and what is killed is lost. Those with
 * state read shuffle files. Those before them, which make such files, read broadcasts, in their first milliseconds, and are
 * killed once at most, and so are those of replica queries, as each holds a slot that a task with state may wait for; tasks
 * with state read broadcasts as well, but it may take long to open their state again.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val stages = new ConcurrentHashMap[Int, Boolean]() // those that are looked at -> whether they hold state
  private val running = new ConcurrentHashMap[Long, Running]() // by task id; of these stages
  private val silence = new ConcurrentHashMap[String, Long]() // executor that was given up -> its milliseconds of silence
  private val gone = ConcurrentHashMap.newKeySet[String]() // ids are not used again
  private val forgotten = ConcurrentHashMap.newKeySet[String]() // the same: nobody is told to read from these any more

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

  /** Once for each executor: Kubernetes has it removed again when its pod is deleted. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (gone.add(removed.executorId)) {
    val loss = lossOf(removed.executorId, removed.time)
    after(StuckTasks.PausesMs.head)(PendingTasks.beginEpoch(context)) // before the first look, by the same thread
    look(loss, wasSilent = loss.silentMs.isDefined, StuckTasks.PausesMs)
  }

  /** With some cluster managers well before the other. */
  override def onBlockManagerRemoved(removed: SparkListenerBlockManagerRemoved): Unit = {
    val executor = removed.blockManagerId.executorId
    if (forgotten.add(executor)) after(StuckTasks.PausesMs.head)(freeThoseBeforeState(lossOf(executor, removed.time)))
  }

  private def lossOf(executor: String, atMs: Long): Loss = Loss(executor, atMs, Option(silence.get(executor)))

  private def after(pauseMs: Long)(free: => Unit): Unit = if (!later.isShutdown) { // else the application ends
    val freeing: Runnable = () => FailOpen.otherwise("freeing of stuck tasks", ())(free)
    later.schedule(freeing, pauseMs, TimeUnit.MILLISECONDS)
    ()
  }

  /** Spark takes note of the lost files in its own time: in 0.2 s as a rule, later when its scheduler is busy. */
  private def look(loss: Loss, wasSilent: Boolean, pauses: List[Long]): Unit =
    for (pause <- pauses.headOption) after(pause)(if (!free(loss, wasSilent)) look(loss, wasSilent = false, pauses.tail))

  /** Those as well that began after the loss and were still told of its files. */
  private def free(loss: Loss, wasSilent: Boolean): Boolean = {
    PendingTasks.askAnew(context)
    val withState = running.asScala.filter(_._2.holdsState)
    val lacking = withState.values.map(_.stage).toSet.filter(PendingTasks.lackShuffleFiles(context, _))
    kill(loss, withState.collect {
      case (id, task) if task.began >= loss.sinceMs - StuckTasks.ReadingMs && (wasSilent || lacking(task.stage)) => id
    })
    lacking.nonEmpty
  }

  /** Those that have not come to an end meanwhile. */
  private def freeThoseBeforeState(loss: Loss): Unit = {
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
  /** When it was heard of last. */
  def sinceMs: Long = atMs - silentMs.getOrElse(0L)
}

object StuckTasks {
  private val PausesMs = List(200L, 800L, 2000L)
  private val ReadingMs = 10000L
  private val BeginningMs = 500L // that an executor was killed is noticed in 0.05 to 0.15 s
}
