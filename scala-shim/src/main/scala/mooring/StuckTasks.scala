package io.mooring

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler._

/**
 * Frees tasks that wait for an executor that fell silent. A task that reads shuffle files of it waits for its answer, not
 * knowing that it was given up, until `spark.network.timeout`: two minutes, four times. Such tasks are run again; they
 * learn where the files are made anew. To be killed so does not count as a failure.
 */
final class StuckTasks(context: SparkContext) extends SparkListener {
  private val readers = ConcurrentHashMap.newKeySet[Int]() // stages that read shuffle files
  private val running = new ConcurrentHashMap[Long, String]() // task id -> its executor; of these stages
  private val silent = ConcurrentHashMap.newKeySet[String]() // given up, and not yet removed

  private val later = Executors.newSingleThreadScheduledExecutor { (work: Runnable) =>
    val made = new Thread(work, "mooring-stuck-tasks")
    made.setDaemon(true)
    made
  }

  def isSilent(executor: String): Unit = { silent.add(executor); () }

  def stop(): Unit = { later.shutdownNow(); () }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit =
    if (submitted.stageInfo.parentIds.nonEmpty) readers.add(submitted.stageInfo.stageId)

  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit = readers.remove(completed.stageInfo.stageId)

  override def onTaskStart(start: SparkListenerTaskStart): Unit =
    if (readers.contains(start.stageId)) running.put(start.taskInfo.taskId, start.taskInfo.executorId)

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = running.remove(end.taskInfo.taskId)

  /** Spark forgets an executor's shuffle files just after this; then a task that begins anew knows. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (silent.remove(removed.executorId)) {
    val waiting = running.keySet().asScala.toSeq
    later.schedule((() => Aside.otherwise("freeing of stuck tasks", ())(free(waiting, removed.executorId))): Runnable,
      StuckTasks.PauseMs, TimeUnit.MILLISECONDS)
  }

  private def free(tasks: Seq[Long], executor: String): Unit = {
    val stuck = tasks.filter(running.containsKey(_))
    if (stuck.nonEmpty) Say.warn(s"${stuck.size} tasks may wait for shuffle files of executor $executor: they are run again")
    stuck.foreach(context.killTaskAttempt(_, interruptThread = true, s"may wait for executor $executor, which is silent"))
  }
}

object StuckTasks {
  private val PauseMs = 500L
}
