package io.mooring

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.mooring.PendingTasks

/**
 * Frees tasks with state that wait for an executor that is gone. A task that had begun to read its shuffle files asks once more after
 * `spark.shuffle.io.retryWait` when it was killed, and waits for `spark.network.timeout` (two minutes) when it fell
 * silent, then for broadcasts as well, whether or not files are lost. Meanwhile it holds the slot that the tasks of the lost executor are to have. It is run again, and asks anew where
 * the files are; to be killed so does not count as a failure.
 *
 * Only tasks that began not long before the loss are meant: reading comes first, and what is killed is lost.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val readers = ConcurrentHashMap.newKeySet[Int]() // stages that hold state and read shuffle files
  private val running = new ConcurrentHashMap[Long, Running]() // by task id; of these stages
  private val silence = new ConcurrentHashMap[String, Long]() // executor that was given up -> its milliseconds of silence
  private val gone = ConcurrentHashMap.newKeySet[String]() // ids are not used again

  private val later = Executors.newSingleThreadScheduledExecutor(Daemon.factory("mooring-stuck-tasks"))

  def isSilent(executor: String, forMs: Long): Unit = { silence.put(executor, forMs); () }

  def stop(): Unit = { later.shutdownNow(); () }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit =
    if (submitted.stageInfo.parentIds.nonEmpty && PlacedStages.isPlaced(submitted.stageInfo)) readers.add(submitted.stageInfo.stageId)

  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit = readers.remove(completed.stageInfo.stageId)

  override def onTaskStart(start: SparkListenerTaskStart): Unit =
    if (readers.contains(start.stageId)) running.put(start.taskInfo.taskId, Running(start.stageId, start.taskInfo.launchTime))

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = running.remove(end.taskInfo.taskId)

  /** Once for each executor: Kubernetes has it removed again when its pod is deleted. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (gone.add(removed.executorId)) {
    val silent = Option(silence.remove(removed.executorId))
    look(removed.time - StuckTasks.ReadingMs - silent.getOrElse(0L), removed.executorId, silent.isDefined, StuckTasks.PausesMs)
  }

  /** Spark takes note of the lost files in its own time: in 0.2 s as a rule, later when its scheduler is busy. */
  private def look(since: Long, executor: String, wasSilent: Boolean, pauses: List[Long]): Unit =
    for (pause <- pauses.headOption if !later.isShutdown) { // the application ends
      val freeing: Runnable = () => Aside.otherwise("freeing of stuck tasks", ()) {
        if (!free(since, executor, wasSilent)) look(since, executor, wasSilent = false, pauses.tail)
      }
      later.schedule(freeing, pause, TimeUnit.MILLISECONDS)
    }

  /** Those as well that began after the loss and were still told of its files. */
  private def free(since: Long, executor: String, wasSilent: Boolean): Boolean = {
    PendingTasks.askAnew(context)
    val lacking = running.values.asScala.map(_.stage).toSet.filter(PendingTasks.lackShuffleFiles(context, _))
    val stuck = running.asScala.collect { case (id, task) if task.began >= since && (wasSilent || lacking(task.stage)) => id }.toSeq
    if (stuck.nonEmpty) Say.info(s"tasks ${stuck.mkString(", ")} may wait for files of executor $executor: they are run again")
    stuck.foreach(context.killTaskAttempt(_, interruptThread = true, s"may wait for executor $executor, which is gone"))
    lacking.nonEmpty
  }
}

private final case class Running(stage: Int, began: Long)

object StuckTasks {
  private val PausesMs = List(200L, 800L, 2000L)
  private val ReadingMs = 10000L
}
