package io.mooring

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.mooring.PendingTasks

/**
 * Frees tasks of streaming queries that wait for an executor that is gone. A task that had begun to read from it asks once
 * more after `spark.shuffle.io.retryWait` when it was killed, and waits for `spark.network.timeout` (two minutes) when it
 * fell silent. Meanwhile it holds a slot that the tasks of the lost executor are to have, or these wait for its files. It is
 * run again, and asks anew where that is; to be killed so does not count as a failure.
 *
 * Only tasks that began not long before the loss are meant: reading comes first, and what is killed is lost. Those with
 * state read shuffle files. Those before them, which make such files, read broadcasts, in their first milliseconds; tasks
 * with state as well, but these are left to it: it may take long to open their state again.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val stages = new ConcurrentHashMap[Int, Boolean]() // those that are looked at -> whether they hold state
  private val running = new ConcurrentHashMap[Long, Running]() // by task id; of these stages
  private val silence = new ConcurrentHashMap[String, Long]() // executor that was given up -> its milliseconds of silence
  private val gone = ConcurrentHashMap.newKeySet[String]() // ids are not used again

  private val later = Executors.newSingleThreadScheduledExecutor(Daemon.factory("mooring-stuck-tasks"))

  def isSilent(executor: String, forMs: Long): Unit = { silence.put(executor, forMs); () }

  def stop(): Unit = { later.shutdownNow(); () }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = {
    val stage = submitted.stageInfo
    val isOfQuery = Option(submitted.properties).exists(_.getProperty(Names.QueryIdProperty) != null)
    if (stage.parentIds.nonEmpty && PlacedStages.isPlaced(stage)) stages.put(stage.stageId, true)
    else if (isOfQuery && PendingTasks.makesShuffleFiles(stage)) stages.put(stage.stageId, false)
  }

  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit = stages.remove(completed.stageInfo.stageId)

  override def onTaskStart(start: SparkListenerTaskStart): Unit =
    for (holdsState <- Option(stages.get(start.stageId)))
      running.put(start.taskInfo.taskId, Running(start.stageId, holdsState, start.taskInfo.launchTime))

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = running.remove(end.taskInfo.taskId)

  /** Once for each executor: Kubernetes has it removed again when its pod is deleted. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (gone.add(removed.executorId))
    look(Loss(removed.executorId, removed.time, Option(silence.remove(removed.executorId))), StuckTasks.PausesMs)

  /** Spark takes note of the lost files in its own time: in 0.2 s as a rule, later when its scheduler is busy. */
  private def look(loss: Loss, pauses: List[Long]): Unit =
    for (pause <- pauses.headOption if !later.isShutdown) { // the application ends
      val freeing: Runnable = () => Aside.otherwise("freeing of stuck tasks", ()) {
        if (!free(loss, isFirst = pauses eq StuckTasks.PausesMs)) look(loss, pauses.tail)
      }
      later.schedule(freeing, pause, TimeUnit.MILLISECONDS)
    }

  /** Those with state as well that began after the loss and were still told of its files. */
  private def free(loss: Loss, isFirst: Boolean): Boolean = {
    PendingTasks.askAnew(context)
    val tasks = running.asScala.toSeq
    val lacking = tasks.collect { case (_, task) if task.holdsState => task.stage }.toSet.filter(PendingTasks.lackShuffleFiles(context, _))
    val wasSilent = isFirst && loss.silentMs.isDefined
    val stuck = tasks.collect {
      case (id, task) if task.holdsState && task.began >= loss.sinceMs - StuckTasks.ReadingMs && (wasSilent || lacking(task.stage)) => id
      case (id, task) if !task.holdsState && isFirst && task.began >= loss.sinceMs - StuckTasks.BeginningMs && task.began <= loss.atMs => id
    }
    if (stuck.nonEmpty) Say.info(s"tasks ${stuck.mkString(", ")} may wait for executor ${loss.executor}, which is gone: they are run again")
    stuck.foreach(context.killTaskAttempt(_, interruptThread = true, s"may wait for executor ${loss.executor}, which is gone"))
    lacking.nonEmpty
  }
}

private final case class Running(stage: Int, holdsState: Boolean, began: Long)

private final case class Loss(executor: String, atMs: Long, silentMs: Option[Long]) {
  /** When it was heard of last. */
  def sinceMs: Long = atMs - silentMs.getOrElse(0L)
}

object StuckTasks {
  private val PausesMs = List(200L, 800L, 2000L)
  private val ReadingMs = 10000L
  private val BeginningMs = 500L // a loss is noticed in 0.05 to 0.15 s
}
