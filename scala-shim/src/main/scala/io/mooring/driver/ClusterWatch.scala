package io.mooring.driver

import java.time.Instant
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Daemon, Metrics}
import io.mooring.placement.{PlacedStages, PlacedState, PlacementTable}
import io.mooring.standby.Standbys
import io.mooring.warmup.WarmupProfiles
import org.apache.spark.{ExceptionFailure, SparkContext}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.shims.{LossWatch, PendingTasks}
import org.apache.spark.sql.streaming.StreamingQueryListener._

/**
 * Follows executors that come and go, and counts where the tasks of placed stages ran. When an executor is lost, its waiting
 * tasks are sent to executors that hold copies of their state.
 *
 * Spark's listener thread calls the `on…` methods, one after the other. Any thread may call the others. When a redirection
 * fails, the tasks wait as in stock Spark.
 *
 * Events: BatchEnded. ExecutorRegistry, QueryWatch and WithheldOffers send those of executors and queries.
 *
 * @param hasStandbys whether each task has copies, to which its tasks are sent when their executor is lost
 */
final class ClusterWatch(
    context: SparkContext, bridge: Bridge, table: PlacementTable, queries: QueryWatch, standbys: Option[Standbys],
    hasStandbys: Boolean, executors: ExecutorRegistry, reports: ExecutorReportHandler, warmups: WarmupProfiles, withheld: Option[WithheldOffers])
  extends SparkListener {
  private final class Batch {
    var planned, asPlanned = 0
    val runs = scala.collection.mutable.Map[Int, TaskRun]() // by partition
    val failedOn = scala.collection.mutable.Map[Int, Set[String]]() // partition -> executors
    val notPlaced = scala.collection.mutable.Set[Int]()
  }
  private val stages = scala.collection.concurrent.TrieMap[Int, ClusterWatch.PlacedStage]()
  private val batches = scala.collection.mutable.Map[String, Batch]() // query -> its running batch
  private val removed = ConcurrentHashMap.newKeySet[String]() // ids are not used again
  private val preferred, anywhere, matched = new AtomicLong

  override def onExecutorAdded(added: SparkListenerExecutorAdded): Unit = {
    table.executorAdded(added.executorId, added.executorInfo.executorHost)
    executors.added(added.executorId, added.executorInfo.executorHost, added.executorInfo.totalCores)
    lookAtOffers() // its host may be excluded
  }

  override def onExecutorExcluded(excluded: SparkListenerExecutorExcluded): Unit = lookAtOffers()
  override def onExecutorUnexcluded(unexcluded: SparkListenerExecutorUnexcluded): Unit = lookAtOffers()
  override def onNodeExcluded(excluded: SparkListenerNodeExcluded): Unit = lookAtOffers()
  override def onNodeUnexcluded(unexcluded: SparkListenerNodeUnexcluded): Unit = lookAtOffers()
  override def onExecutorExcludedForStage(excluded: SparkListenerExecutorExcludedForStage): Unit = redirect()
  override def onNodeExcludedForStage(excluded: SparkListenerNodeExcludedForStage): Unit = redirect()

  /** Asks Spark which executors get no tasks, and redirects the tasks that wait for these. */
  def lookAtOffers(): Unit = if (withheld.exists(_.look())) redirect()

  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = {
    table.executorLost(removed.executorId)
    if (hasStandbys) awaitLossNoted(removed.executorId)
    redirect()
    this.removed.add(removed.executorId)
    reports.removed(removed.executorId)
    executors.removed(removed.executorId, removed.reason)
  }

  /**
   * Waits until Spark has noted that the shuffle files of a lost executor are lost: a task that is redirected earlier would ask
   * the lost executor for them. Spark needs milliseconds. Where the files outlive their executor, the wait ends without a note.
   */
  private def awaitLossNoted(lost: String): Unit = FailOpen.otherwise("redirection of tasks", ()) {
    val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ClusterWatch.LossNotedMs)
    while (PendingTasks.areSentTo(context, lost) && System.nanoTime() - end < 0) TimeUnit.MILLISECONDS.sleep(2)
  }

  /**
   * Sends waiting tasks of running stages where the plan wants them now, if their executor is lost or may not have them.
   * Without copies, the tasks of a lost executor wait as in stock Spark: a new executor may start on its host.
   */
  def redirect(): Unit = FailOpen.otherwise("redirection of tasks", ()) {
    if (hasStandbys) PendingTasks.refreshEpochs(context)
    redirect(PendingTasks.Anew)
  }

  /**
   * Redirects the tasks of a stage that was placed just before an executor left, and submitted just after the redirection.
   * Only tasks that wait for an executor that is leaving or removed: `onExecutorRemoved` redirects the tasks of a lost one.
   */
  def redirectWhatCameLate(): Unit = {
    def isGone(executor: String) = table.isLeaving(executor) || removed.contains(executor)
    if (hasStandbys && stages.values.flatMap(stage => PlacedStages.find(stage.rdds)).exists(_.executors.values.stream.anyMatch(isGone(_))))
      redirect(PendingTasks.Anew, isGone)
  }

  /**
   * From now on, waiting tasks are redirected at the moment when Spark notes a loss: before Spark starts them anywhere else.
   * The scheduler calls back with its lock.
   */
  def watchLosses(): Unit = FailOpen.otherwise("redirection of tasks", ())(LossWatch.begin(context, isLost, leaves))

  private def isLost(executor: String): Unit = if (hasStandbys) FailOpen.otherwise("redirection of tasks", ()) {
    table.executorLost(executor)
    redirect(PendingTasks.HeldBack)
  }

  private def leaves(): Unit = { // in another thread: it gets the scheduler's lock once Spark has noted that the executor leaves
    Daemon.start("mooring-decommission")(FailOpen.otherwise("redirection of tasks", ())(lookAtOffers()))
    ()
  }

  private def isUnavailable(executor: String) = if (table.isAlive(executor)) !table.isUsable(executor) else hasStandbys

  private def redirect(how: PendingTasks.How, isGone: String => Boolean = isUnavailable(_)): Unit = {
    PendingTasks.redirect(context, isGone, how)(PlacedStages.candidates(_, table)) { (stage, partition, executor) =>
      PlacedStages.redirected(stage, partition, executor, table)
    }
    ()
  }

  override def onStageSubmitted(submitted: SparkListenerStageSubmitted): Unit = {
    val stage = submitted.stageInfo
    for ((query, batch) <- PlacedStages.batchOf(stage))
      stages(stage.stageId) = ClusterWatch.PlacedStage(query, batch, stage.rddInfos.map(_.id).toSeq)
  }

  override def onTaskEnd(end: SparkListenerTaskEnd): Unit = {
    // The next attempt may prefer an executor that is lost: a task that ran elsewhere at the loss was not redirected.
    if (!end.taskInfo.successful && stages.contains(end.stageId)) redirect()
    val states = PlacedStages.statesOf(end.stageId, end.taskInfo.partitionId).filter(PlacedStages.isSent).distinctBy(_.partition)
    if (end.reason.isInstanceOf[ExceptionFailure]) for (state <- states) {
      val failedOn = batches.getOrElseUpdate(state.query, new Batch).failedOn
      failedOn(state.partition) = failedOn.getOrElse(state.partition, Set.empty) + end.taskInfo.executorId
    }
    if (end.taskInfo.successful) states.foreach(countRun(_, end, isAlone = states.size == 1))
  }

  /** Counts a task that has ended well. Of a task with several states, the plan places only those that it wants on its executor. */
  private def countRun(state: PlacedState, end: SparkListenerTaskEnd, isAlone: Boolean): Unit = {
    val batch = batches.getOrElseUpdate(state.query, new Batch)
    val wanted = PlacedStages.wanted(state)
    val run = TaskRun.of(end, wanted)
    batch.runs.updateWith(state.partition) {
      case Some(placed) if wanted.isEmpty && !isAlone => Some(placed.addedTo(Some(run))) // another operator's state of this partition
      case earlierStage => Some(run.addedTo(earlierStage))
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

  /** A stage that failed stays known: its next attempt may be placed already. */
  override def onStageCompleted(completed: SparkListenerStageCompleted): Unit =
    for (stage <- stages.remove(completed.stageInfo.stageId) if completed.stageInfo.failureReason.isEmpty) PlacedStages.forget(
      completed.stageInfo.stageId, completed.stageInfo.attemptNumber(), stage.rdds)

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

/** The tasks of one partition in a batch, added up over all stages with state; of each task the attempt that ended first. */
private final case class TaskRun(executor: String, wanted: Option[String], milliseconds: Long, rows: Long, isSpeculative: Boolean) {
  def addedTo(other: Option[TaskRun]): TaskRun = other.fold(this) { one =>
    copy(milliseconds = milliseconds + one.milliseconds, rows = rows + one.rows, isSpeculative = isSpeculative || one.isSpeculative)
  }

  def asEventFields: Map[String, Any] = Map("executor" -> executor, "wanted" -> wanted.getOrElse(""), "milliseconds" -> milliseconds,
    "rows" -> rows, "speculative" -> isSpeculative)
}

private object TaskRun {
  def of(end: SparkListenerTaskEnd, wanted: Option[String]): TaskRun = {
    val read = Option(end.taskMetrics).fold(0L)(m => m.inputMetrics.recordsRead + m.shuffleReadMetrics.recordsRead)
    TaskRun(end.taskInfo.executorId, wanted, end.taskInfo.duration, read, end.taskInfo.speculative)
  }
}
