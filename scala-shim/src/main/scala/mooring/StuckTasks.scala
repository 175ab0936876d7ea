package io.mooring

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.mooring.PendingTasks

/**
 * Frees tasks with state that wait for an executor that is gone. A task that had begun to read its shuffle files asks once more after
 * `spark.shuffle.io.retryWait` (5 s) when it was killed, and waits for `spark.network.timeout` (two minutes) when it fell
 * silent. Meanwhile it holds the slot that the tasks of the lost executor are to have. It is run again, and asks anew where
 * the files are; to be killed so does not count as a failure.
 *
 * Only tasks that began not long before the loss are meant: reading comes first, and what is killed is lost.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val readers = ConcurrentHashMap.newKeySet[Int]() // stages that hold state and read shuffle files
  private val running = new ConcurrentHashMap[Long, Running]() // by task id; of these stages
  private val silence = new ConcurrentHashMap[String, Long]() // executor that was given up -> its milliseconds of silence

  private val later = Executors.newSingleThreadScheduledExecutor(Daemon.factory("mooring-stuck-tasks"))

  def isSilent(executor: String, forMs: Long): Unit = { silence.put(executor, forMs); () }

  def stop(): Unit = { later.shutdownNow(); () }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit =
    if (submitted.stageInfo.parentIds.nonEmpty && PlacedStages.isPlaced(submitted.stageInfo)) readers.add(submitted.stageInfo.stageId)

  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit = readers.remove(completed.stageInfo.stageId)

  override def onTaskStart(start: SparkListenerTaskStart): Unit =
    if (readers.contains(start.stageId)) running.put(start.taskInfo.taskId, Running(start.stageId, start.taskInfo.launchTime))

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = running.remove(end.taskInfo.taskId)

  /** Spark forgets an executor's shuffle files about now; a moment later a task that begins anew can know. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = {
    val since = removed.time - StuckTasks.ReadingMs - Option(silence.remove(removed.executorId)).getOrElse(0L)
    if (!later.isShutdown) // the application ends
      later.schedule((() => Aside.otherwise("freeing of stuck tasks", ())(free(since, removed.time, removed.executorId))): Runnable,
        StuckTasks.PauseMs, TimeUnit.MILLISECONDS)
  }

  /** Those as well that began after the loss and were still told of its files: but only if files are lost, else they read. */
  private def free(since: Long, lostAt: Long, executor: String): Unit = {
    PendingTasks.askAnew(context)
    val stuck = running.asScala.collect { case (id, task)
      if task.began >= since && (task.began < lostAt || PendingTasks.lackShuffleFiles(context, task.stage)) => id }.toSeq
    if (stuck.nonEmpty) Say.info(s"tasks ${stuck.mkString(", ")} may wait for shuffle files of executor $executor: they are run again")
    stuck.foreach(context.killTaskAttempt(_, interruptThread = true, s"may wait for executor $executor, which is gone"))
  }
}

private final case class Running(stage: Int, began: Long)

object StuckTasks {
  private val PauseMs = 200L
  private val ReadingMs = 10000L
}
