package io.mooring.driver

import java.time.Instant
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Daemon, Metrics}
import io.mooring.placement.{PlacedStages, PlacedState, PlacementTable}
import io.mooring.standby.Standbys
import io.mooring.warmup.WarmupProfiles
import org.apache.spark.{ExceptionFailure, Resubmitted, SparkContext, Success}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.shims.{LossWatch, PendingTasks}
import org.apache.spark.sql.streaming.StreamingQueryListener._

/**
 * Follows executors that come and go, and counts where the tasks of placed stages ran. A stage is placed when the plan wants its
 * state on certain executors. With standbys, the tasks that wait for a lost executor are redirected to executors with copies of their state.
 *
 * Threads: Spark's listener thread calls the `on…` methods, one after the other. Spark's scheduler threads call `lost` and
 * `decommissioned`, with the scheduler's lock. Any thread may call the other methods. Depends on `PendingTasks` and `LossWatch`.
 * When a redirection fails, the tasks wait as in stock Spark.
 *
 * Events: BatchEnded. ExecutorRegistry, QueryWatch and WithholdingWatch send the events of executors and queries.
 *
 * @param hasStandbys whether the plan keeps copies of each task's state, to which tasks can be redirected
 */
final class ClusterWatch(
    context: SparkContext, bridge: Bridge, table: PlacementTable, queries: QueryWatch, standbys: Option[Standbys],
    hasStandbys: Boolean, executors: ExecutorRegistry, reports: ExecutorReportHandler, warmups: WarmupProfiles,
    withheld: Option[WithholdingWatch])
  extends SparkListener {
  private final class Batch {
    var planned, asPlanned = 0
    val runs = scala.collection.mutable.Map[Int, TaskRun]() // by partition
    val failedOn = scala.collection.mutable.Map[Int, Set[String]]() // partition -> executors
    val notPlaced = scala.collection.mutable.Set[Int]()
  }
  private val stages = scala.collection.concurrent.TrieMap[Int, ClusterWatch.PlacedStage]()
  private val batches = scala.collection.mutable.Map[String, Batch]() // query -> its running batch; the listener thread's
  private val removedIds = ConcurrentHashMap.newKeySet[String]() // executors whose removal is handled; ids are not used again
  // Runs of tasks since the start: with a wanted executor, without one, and on the wanted one
  private val preferred, anywhere, matched = new AtomicLong
  private val failedTasks = new FailedTasks

  override def onExecutorAdded(added: SparkListenerExecutorAdded): Unit = {
    table.executorAdded(added.executorId, added.executorInfo.executorHost)
    executors.added(added.executorId, added.executorInfo.executorHost, added.executorInfo.totalCores)
    refreshWithheld() // Spark may have excluded its host
  }

  override def onExecutorExcluded(excluded: SparkListenerExecutorExcluded): Unit = refreshWithheld()
  override def onExecutorUnexcluded(unexcluded: SparkListenerExecutorUnexcluded): Unit = refreshWithheld()
  override def onNodeExcluded(excluded: SparkListenerNodeExcluded): Unit = refreshWithheld()
  override def onNodeUnexcluded(unexcluded: SparkListenerNodeUnexcluded): Unit = refreshWithheld()
  override def onExecutorExcludedForStage(excluded: SparkListenerExecutorExcludedForStage): Unit = redirect()
  override def onNodeExcludedForStage(excluded: SparkListenerNodeExcludedForStage): Unit = redirect()

  /** Asks Spark which executors get no tasks. When these have changed, redirects the tasks that wait for them. */
  def refreshWithheld(): Unit = if (withheld.exists(_.refresh())) redirect()

  /** Acts once for each executor: Kubernetes causes a second event when it deletes the pod of an executor. */
  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = if (!removedIds.contains(removed.executorId)) {
    table.executorLost(removed.executorId)
    if (hasStandbys) awaitLossNoted(removed.executorId)
    redirect()
    removedIds.add(removed.executorId) // not earlier: see `redirectLateTasks`
    reports.removed(removed.executorId)
    executors.removed(removed.executorId, removed.reason)
  }

  /**
   * Waits until Spark has noted that the shuffle files of a lost executor are lost. A task that is redirected earlier would ask
   * the lost executor for these files. Spark needs some milliseconds. Where shuffle files outlive their executor, Spark notes
   * nothing, and the wait ends after `LossNotedMs`.
   */
  private def awaitLossNoted(lost: String): Unit = FailOpen.otherwise("redirection of tasks", ()) {
    val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ClusterWatch.LossNotedMs)
    while (PendingTasks.isListedForShuffleFiles(context, lost) && System.nanoTime() - end < 0) TimeUnit.MILLISECONDS.sleep(2)
  }

  /**
   * Redirects the waiting tasks of running stages whose executor can not run them: it is alive and gets no tasks from Spark, also
   * because it is to be removed; or, with standbys, it is lost or leaving. Each task goes to the first executor of its row that can
   * run it.
   *
   * Without standbys, tasks of a lost executor are not redirected. They wait for `spark.locality.wait`, as in stock
   * Spark: a new executor that starts on the same host finds their state there.
   */
  def redirect(): Unit = FailOpen.otherwise("redirection of tasks", ()) {
    if (hasStandbys) PendingTasks.refreshEpochs(context)
    redirectTasksOf(mustLeave, PendingTasks.Immediate)
  }

  /**
   * Redirects tasks that a redirection has missed: their stage was placed before the executor left, and submitted after the
   * redirection. Called again and again.
   *
   * It redirects tasks of executors that are leaving, and of executors whose removal `onExecutorRemoved` has handled. An executor that is
   * lost and not handled yet is left out: its tasks must first wait for `awaitLossNoted`. Two redirections do not wait: that of `lost`
   * (see `PendingTasks.AtLoss`), and that of `departures.onSilence` in `Driver`. `StuckTasks` kills tasks that then wait for lost files.
   */
  def redirectLateTasks(): Unit = {
    def isLeavingOrRemoved(executor: String) = table.isLeaving(executor) || removedIds.contains(executor)
    if (hasStandbys && stages.values.flatMap(stage => PlacedStages.wantedOf(stage.rdds)).exists(_.awaited.exists(isLeavingOrRemoved)))
      redirectTasksOf(isLeavingOrRemoved, PendingTasks.Immediate)
  }

  /**
   * From now on this class learns of a loss before Spark starts the waiting tasks elsewhere. With standbys, it then redirects these tasks
   * at once, or restarts their locality wait: see `PendingTasks.AtLoss`.
   */
  def watchLosses(): Unit = FailOpen.otherwise("redirection of tasks", ())(LossWatch.begin(context, lost, () => decommissioned()))

  /** The scheduler has noted that the executor is lost. Called with the scheduler's lock. */
  private def lost(executor: String): Unit = if (hasStandbys) FailOpen.otherwise("redirection of tasks", ()) {
    table.executorLost(executor)
    redirectTasksOf(mustLeave, PendingTasks.AtLoss)
  }

  /**
   * An executor is to be decommissioned. Called with the scheduler's lock, before Spark notes it: so another thread asks Spark,
   * once it gets that lock.
   */
  private def decommissioned(): Unit = {
    Daemon.start("mooring-decommission")(FailOpen.otherwise("redirection of tasks", ())(refreshWithheld()))
    ()
  }

  /** Whether waiting tasks are to leave this executor. False for a lost executor without standbys: see `redirect`. */
  private def mustLeave(executor: String): Boolean =
    if (table.isAlive(executor)) !table.isUsable(executor) else hasStandbys

  /** Redirects the waiting tasks of these executors. */
  private def redirectTasksOf(areLeft: String => Boolean, moment: PendingTasks.Moment): Unit = {
    PendingTasks.redirect(context, areLeft, moment)(PlacedStages.candidates(_, table)) { (stage, partition, executor) =>
      PlacedStages.setRedirected(stage, partition, executor, table)
    }
    ()
  }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = {
    val stage = submitted.stageInfo
    for ((query, batch) <- PlacedStages.batchOf(stage))
      stages(stage.stageId) = ClusterWatch.PlacedStage(query, batch, stage.rddInfos.map(_.id).toSeq)
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
    // A task that was running when an executor was lost was not redirected. Its next attempt may prefer that executor.
    if (!end.taskInfo.successful && stages.contains(end.stageId) &&
      failedTasks.needRedirection(end.taskInfo.finishTime, System.currentTimeMillis())) redirect()
    val states = PlacedStages.statesOf(end.stageId, end.taskInfo.partitionId).filter(PlacedStages.isPlaced).distinctBy(_.partition)
    if (end.reason.isInstanceOf[ExceptionFailure]) for (state <- states) {
      val failedOn = batches.getOrElseUpdate(state.query, new Batch).failedOn
      failedOn(state.partition) = failedOn.getOrElse(state.partition, Set.empty) + end.taskInfo.executorId
    }
    end.reason match { // not `taskInfo.successful`, which stays true for a task that is resubmitted
      case Success => states.foreach { state =>
        PlacedStages.taskEnded(state, end.stageId, end.stageAttemptId)
        countRun(state, end, isAlone = states.size == 1)
      }
      case Resubmitted => states.foreach(PlacedStages.taskRunsAgain) // its shuffle files were lost with the executor
      case _ =>
    }
  }

  /**
   * Counts a state of a task that has ended well. A task with several states runs on one executor. `PlacedStages` has kept a wanted
   * executor only for the states that can have it; the others count as not placed. `isAlone` tells whether the task has no other state.
   */
  private def countRun(state: PlacedState, end: SparkListenerTaskEnd, isAlone: Boolean): Unit = {
    val batch = batches.getOrElseUpdate(state.query, new Batch)
    val wanted = PlacedStages.wantedExecutor(state)
    val run = TaskRun.of(end, wanted)
    batch.runs.updateWith(state.partition) {
      case Some(counted) if wanted.isEmpty && !isAlone => Some(counted.plus(run)) // `counted` is another operator's run of this partition
      case Some(ofEarlierStage) => Some(run.plus(ofEarlierStage))
      case None => Some(run)
    }
    wanted match {
      case Some(executor) =>
        batch.planned += 1
        preferred.incrementAndGet()
        if (executor == end.taskInfo.executorId) { batch.asPlanned += 1; matched.incrementAndGet() }
      case None =>
        anywhere.incrementAndGet()
        if (!isAlone) batch.notPlaced += state.partition
    }
  }

  /** `PlacedStages` keeps a stage that failed: its next attempt may be placed already. */
  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit =
    for (_ <- stages.remove(completed.stageInfo.stageId) if completed.stageInfo.failureReason.isEmpty)
      PlacedStages.stageEnded(completed.stageInfo.stageId, completed.stageInfo.attemptNumber())

  /** Spark stops its scheduler soon after this event. A job of a replica query would fail then, and the query with it. */
  override def onApplicationEnd(end: SparkListenerApplicationEnd): Unit = standbys.foreach(_.stop())

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: QueryProgressEvent if e.progress.durationMs.containsKey("addBatch") =>
      val query = e.progress.id.toString
      if (queries.isStateful(query)) batchEnded(query, e)
    case e: QueryIdleEvent =>
      queries.idle(e.id.toString, e.runId.toString, Instant.parse(e.timestamp).toEpochMilli)
    case e: QueryTerminatedEvent =>
      batches.remove(e.id.toString)
      stages.filterInPlace((_, stage) => stage.query != e.id.toString)
      warmups.ended(e.id.toString, e.runId.toString)
      queries.ended(e.id.toString, e.runId.toString, e.exception)
    case _ =>
  }

  private def batchEnded(query: String, e: QueryProgressEvent): Unit = {
    val (began, took) = (Instant.parse(e.progress.timestamp).toEpochMilli, e.progress.durationMs.get("triggerExecution"))
    standbys.foreach(_.committed(query, e.progress.batchId, began, took))
    queries.committed(query, e.progress.runId.toString, e.progress.batchId)
    PlacedStages.forgetBefore(query, e.progress.batchId)
    stages.filterInPlace((_, stage) => stage.query != query || stage.batch >= e.progress.batchId)
    val batch = batches.remove(query).getOrElse(new Batch)
    warmups.batchEnded(query, e.progress.runId.toString, batch.runs.values.map(_.executor).toSet)
    bridge.tell(Map("event" -> "BatchEnded", "query" -> query, "run" -> e.progress.runId.toString,
      "batch" -> e.progress.batchId, "milliseconds" -> took,
      "placements" -> batch.runs.toSeq.sortBy(_._1).map { case (partition, run) =>
        run.asEventFields + ("partition" -> partition) ++ batch.failedOn.get(partition).map("failed-on" -> _.toSeq.sorted)
      },
      "planned" -> batch.planned, "as-planned" -> batch.asPlanned, "not-placed" -> batch.notPlaced.toSeq.sorted,
      "state-bytes" -> stateBytes(e)))
    Metrics.set("preferred-host-requests", preferred.get.toDouble)
    Metrics.set("any-host-requests", anywhere.get.toDouble)
    if (preferred.get > 0) Metrics.set("host-affinity-match-pct", 100.0 * matched.get / preferred.get)
  }

  /** The size of the whole query's state as RocksDB counts it, over all operators and partitions. */
  private def stateBytes(e: QueryProgressEvent): Long =
    e.progress.stateOperators.map(_.customMetrics.getOrDefault("rocksdbSstFileSize", 0L).longValue).sum
}

private object ClusterWatch {
  private val LossNotedMs = 100L

  private final case class PlacedStage(query: String, batch: Long, rdds: Seq[Int])
}

/**
 * The tasks of one partition in a batch, added up over all stages with state. Of each task, the attempt that ended first counts.
 *
 * @param executor     where the last stage's task ran
 * @param wanted       where the plan wanted it
 * @param milliseconds the duration of all tasks
 * @param rows         the rows that all tasks have read
 */
private final case class TaskRun(executor: String, wanted: Option[String], milliseconds: Long, rows: Long, isSpeculative: Boolean) {
  /** Executor and wanted executor of this run, with the sums of both runs. */
  def plus(other: TaskRun): TaskRun =
    copy(milliseconds = milliseconds + other.milliseconds, rows = rows + other.rows, isSpeculative = isSpeculative || other.isSpeculative)

  def asEventFields: Map[String, Any] = Map("executor" -> executor, "wanted" -> wanted.getOrElse(""), "milliseconds" -> milliseconds,
    "rows" -> rows, "speculative" -> isSpeculative)
}

private object TaskRun {
  def of(end: SparkListenerTaskEnd, wanted: Option[String]): TaskRun = {
    val read = Option(end.taskMetrics).fold(0L)(m => m.inputMetrics.recordsRead + m.shuffleReadMetrics.recordsRead)
    TaskRun(end.taskInfo.executorId, wanted, end.taskInfo.duration, read, end.taskInfo.speculative)
  }
}
