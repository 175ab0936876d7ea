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
 * Executors that come and go, and where the tasks of placed stages ran. Called by one thread, in order; `redirect` by any.
 */
final class ClusterWatch(
    context: SparkContext, bridge: Bridge, table: PlacementTable, queries: QueryWatch, standbys: Option[Standbys],
    takesOver: Boolean, census: ExecutorRegistry, reports: ExecutorReportHandler, rehearsals: WarmupProfiles, withheld: Option[WithheldOffers])
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
    census.added(added.executorId, added.executorInfo.executorHost, added.executorInfo.totalCores)
    lookAtOffers() // its host may be excluded
  }

  override def onExecutorExcluded(excluded: SparkListenerExecutorExcluded): Unit = lookAtOffers()
  override def onExecutorUnexcluded(unexcluded: SparkListenerExecutorUnexcluded): Unit = lookAtOffers()
  override def onNodeExcluded(excluded: SparkListenerNodeExcluded): Unit = lookAtOffers()
  override def onNodeUnexcluded(unexcluded: SparkListenerNodeUnexcluded): Unit = lookAtOffers()
  override def onExecutorExcludedForStage(excluded: SparkListenerExecutorExcludedForStage): Unit = redirect()
  override def onNodeExcludedForStage(excluded: SparkListenerNodeExcludedForStage): Unit = redirect()

  /** Tasks that wait for executors which get none any more go elsewhere at once. */
  def lookAtOffers(): Unit = if (withheld.exists(_.look())) redirect()

  override def onExecutorRemoved(removed: SparkListenerExecutorRemoved): Unit = {
    table.executorLost(removed.executorId)
    if (takesOver) awaitNoteOf(removed.executorId)
    redirect()
    this.removed.add(removed.executorId)
    reports.removed(removed.executorId)
    census.removed(removed.executorId, removed.reason)
  }

  /**
   * What is redirected before Spark has taken note that shuffle files are lost would wait for them at the lost executor.
   * That takes Spark milliseconds; where the files are not lost with their executor nothing comes of the wait.
   */
  private def awaitNoteOf(lost: String): Unit = FailOpen.otherwise("redirection of tasks", ()) {
    val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ClusterWatch.NoteMs)
    while (PendingTasks.areSentTo(context, lost) && System.nanoTime() - end < 0) TimeUnit.MILLISECONDS.sleep(2)
  }

  /**
   * The tasks that wait in running stages for executors that are gone, or that may not have them, go where the plan wants
   * them now. Without copies those of a lost executor wait as on stock: it may come back to its host.
   */
  def redirect(): Unit = FailOpen.otherwise("redirection of tasks", ()) {
    if (takesOver) PendingTasks.refreshEpochs(context)
    redirect(PendingTasks.Anew)
  }

  /**
   * A stage may have got its places just before an executor left, and the scheduler its tasks just after the others were
   * redirected. What waits for one that is lost is left to those who hear of that, until they are done.
   */
  def redirectWhatCameLate(): Unit = {
    def isGone(executor: String) = table.isLeaving(executor) || removed.contains(executor)
    if (takesOver && stages.values.flatMap(stage => PlacedStages.find(stage.rdds)).exists(_.executors.values.stream.anyMatch(isGone(_))))
      redirect(PendingTasks.Anew, isGone)
  }

  /**
   * From now on Spark starts none of them elsewhere before that: where nothing would hold one back it goes there at once.
   * With the scheduler's lock.
   */
  def watchLosses(): Unit = FailOpen.otherwise("redirection of tasks", ())(LossWatch.begin(context, isLost, leaves))

  private def isLost(executor: String): Unit = if (takesOver) FailOpen.otherwise("redirection of tasks", ()) {
    table.executorLost(executor)
    redirect(PendingTasks.HeldBack)
  }

  private def leaves(): Unit = { // by another thread, which gets the lock when Spark has noted it
    Daemon.start("mooring-decommission")(FailOpen.otherwise("redirection of tasks", ())(lookAtOffers()))
    ()
  }

  private def isUnavailable(executor: String) = if (table.isAlive(executor)) !table.isUsable(executor) else takesOver

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
    // It may prefer an executor that is gone, if it was not redirected: it was started elsewhere before that, say.
    if (!end.taskInfo.successful && stages.contains(end.stageId)) redirect()
    val states = PlacedStages.statesOf(end.stageId, end.taskInfo.partitionId).filter(PlacedStages.isSent).distinctBy(_.partition)
    if (end.reason.isInstanceOf[ExceptionFailure]) for (state <- states) {
      val failedOn = batches.getOrElseUpdate(state.query, new Batch).failedOn
      failedOn(state.partition) = failedOn.getOrElse(state.partition, Set.empty) + end.taskInfo.executorId
    }
    if (end.taskInfo.successful) states.foreach(ran(_, end, isAlone = states.size == 1))
  }

  /** A task goes to one executor. Where it holds several states, the plan places only those that it wants there. */
  private def ran(state: PlacedState, end: SparkListenerTaskEnd, isAlone: Boolean): Unit = {
    val batch = batches.getOrElseUpdate(state.query, new Batch)
    val wanted = PlacedStages.wanted(state)
    val run = TaskRun.of(end, wanted)
    batch.runs.updateWith(state.partition) {
      case Some(placed) if wanted.isEmpty && !isAlone => Some(placed.after(Some(run))) // another operator's state of this partition
      case stageBefore => Some(run.after(stageBefore))
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

  /** Of one that failed the next attempt may have its places already. */
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
      rehearsals.ended(e.id.toString, e.runId.toString)
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
    rehearsals.batchEnded(query, e.progress.runId.toString, batch.runs.values.map(_.executor).toSet)
    bridge.tell(Map("event" -> "BatchEnded", "query" -> query, "run" -> e.progress.runId.toString,
      "batch" -> e.progress.batchId, "milliseconds" -> took,
      "placements" -> batch.runs.toSeq.sortBy(_._1).map { case (partition, run) =>
        run.told + ("partition" -> partition) ++ batch.failedOn.get(partition).map("failed-on" -> _.toSeq.sorted)
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
  private val NoteMs = 100L

  private final case class PlacedStage(query: String, batch: Long, rdds: Seq[Int])
}

/** How the task of one partition went in a batch: its attempt that was done first, in all stages with state. */
private final case class TaskRun(executor: String, wanted: Option[String], milliseconds: Long, rows: Long, isSpeculative: Boolean) {
  def after(stageBefore: Option[TaskRun]): TaskRun = stageBefore.fold(this) { one =>
    copy(milliseconds = milliseconds + one.milliseconds, rows = rows + one.rows, isSpeculative = isSpeculative || one.isSpeculative)
  }

  def told: Map[String, Any] = Map("executor" -> executor, "wanted" -> wanted.getOrElse(""), "milliseconds" -> milliseconds,
    "rows" -> rows, "speculative" -> isSpeculative)
}

private object TaskRun {
  def of(end: SparkListenerTaskEnd, wanted: Option[String]): TaskRun = {
    val read = Option(end.taskMetrics).fold(0L)(m => m.inputMetrics.recordsRead + m.shuffleReadMetrics.recordsRead)
    TaskRun(end.taskInfo.executorId, wanted, end.taskInfo.duration, read, end.taskInfo.speculative)
  }
}
