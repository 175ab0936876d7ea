package io.mooring

import java.time.Instant
import java.util.concurrent.{ConcurrentHashMap, FutureTask, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{ExceptionFailure, SparkContext}
import org.apache.spark.scheduler._
import org.apache.spark.scheduler.shims.{LossWatch, PendingTasks}
import org.apache.spark.sql.execution.streaming.state.shims.{OperatorFacts, StreamDoor, StreamDoors}
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._

/** Registered by name in every session; Spark calls `onQueryStarted` in the stream's thread, before its first batch. */
final class QueryStartWatch extends StreamingQueryListener {
  override def onQueryStarted(event: QueryStartedEvent): Unit =
    for (driver <- Driver.current; query <- StreamDoors.query(event.id.toString)) {
      AskedOnce.begin(query.checkpoint)
      val look = Aside.otherwise[Option[QueryWatch.Look]]("look ahead", None)(driver.queries.lookAhead(query))
      driver.bridge.tell(Map("event" -> "CheckpointTaken", "run" -> query.runId, "checkpoint" -> query.checkpoint),
        about = Some(QueryStartWatch.about(query.runId)))
      Aside.otherwise("look at an earlier drain", ())(driver.drains.atStart(query))
      if (Drains.whyNotToStart(query.checkpoint).isEmpty) {
        TakeOver.atStart(query)
        for (until <- driver.drains.undoneUntil(query.checkpoint)) driver.queries.comesAgain(query, until)
        look.foreach(driver.queries.starts(query, _))
      }
    }
  override def onQueryProgress(event: QueryProgressEvent): Unit = ()
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = for (driver <- Driver.current) {
    val run = event.runId.toString
    driver.bridge.over(QueryStartWatch.about(run))
    driver.bridge.tell(Map("event" -> "CheckpointLeft", "run" -> run))
    driver.drains.ended(run, event.exception)
  }
}

private object QueryStartWatch {
  def about(run: String): String = s"checkpoint of $run"
}

/** Watches stateful queries: tells the agent of them, and waits for the plan before a run's first batch if there is any. */
final class QueryWatch(
    bridge: Bridge, table: PlacementTable, standbys: Option[Standbys], prefetches: Option[Prefetches], patience: Patience,
    waitsForPlan: Boolean) {
  private val runs = new ConcurrentHashMap[String, String]() // query id -> the newest run's; written with the lock
  private val planned = ConcurrentHashMap.newKeySet[String]() // run ids
  private val computed = new ConcurrentHashMap[String, Long]() // query id -> the last batch of which a task was sent
  private val told = new ConcurrentHashMap[String, QueryWatch.Shape]() // run id -> what the agent knows of it
  private val underWay = new ConcurrentHashMap[String, QueryWatch.Begun]() // query id -> the batch begun last; written with the lock
  private val repeated = new ConcurrentHashMap[String, Long]() // run id -> batch that an earlier run has begun

  /** The run begins with a batch that an earlier one has begun and not committed. */
  def repeats(run: String, batch: Long): Unit = { repeated.put(run, batch); () }

  def isRepeated(operator: OperatorFacts): Boolean = repeated.getOrDefault(operator.runId, -1) == operator.batch

  /** Up to this batch the run does again what its sink may remember, and leave out: its state is to be there none the less. */
  def comesAgain(query: StreamDoor, until: Long): Unit =
    query.completeBatches(until)(computed.getOrDefault(query.id, -1) == _)

  /** The batch's first task with state is about to be sent. */
  def computes(query: String, batch: Long): Unit = { computed.put(query, batch); () }

  /** What the checkpoint of a run that is about to start says of its operators, by a thread of its own; None without state. */
  def lookAhead(query: StreamDoor): Option[QueryWatch.Look] = Option.when(query.isStateful) {
    val look = new FutureTask(() => {
      val door = query.another
      door -> door.operatorsInCheckpoint
    })
    Daemon.start(s"mooring-look-${query.id}")(look.run())
    look
  }

  /**
   * A run starts; in the stream's thread, which does not wait. The agent hears what it is to run long before its first batch
   * is planned, as a rule: so the plan is there by then, and the state is under way.
   */
  def starts(query: StreamDoor, look: QueryWatch.Look): Unit = {
    val run = query.runId
    synchronized(runs.put(query.id, run))
    Daemon.start(s"mooring-start-${query.id}")(Aside.forAWhile("look at a query that starts", (), !query.isActive) {
      val (door, operators) = look.get()
      if (operators.nonEmpty && tellOnce(query.id, run, Some(door), operators)) {
        synchronized(if (runs.get(query.id) == run) standbys.foreach(_.starts(query.id, run, operators)))
        val hasPlan = !waitsForPlan || table.awaitPlanFor(query.id, QueryWatch.LongestMs)(patience.isHopeful && runs.get(query.id) == run)
        if (hasPlan && runs.get(query.id) == run) prefetches.foreach(_.begin(door, operators))
      }
    })
    ()
  }

  /** Whether the agent was told just now: not of a run that has ended, nor again of what it knows. */
  private def tellOnce(query: String, run: String, door: Option[StreamDoor], operators: Seq[OperatorFacts]): Boolean = synchronized {
    val shape = QueryWatch.shapeOf(operators)
    val isNews = runs.get(query) == run && told.put(run, shape) != shape
    if (isNews) bridge.tell(Map("event" -> "QueryPlanned", "query" -> query, "run" -> run,
      "name" -> door.map(_.name).getOrElse(""), "checkpoint" -> operators.head.stateDir.stripSuffix("/state"),
      "batch" -> operators.head.batch, "provider" -> door.flatMap(_.setting(StreamDoors.ProviderKey)).getOrElse(""),
      "operators" -> operators.map(o => Map("id" -> o.id, "partitions" -> o.partitions))), about = Some(QueryWatch.about(query)))
    isNews
  }

  /** A batch of the query was planned; in the stream's thread. */
  def planned(query: String, operators: Seq[OperatorFacts]): Unit = {
    val run = operators.head.runId
    if (planned.add(run)) {
      val door = StreamDoors.query(query)
      synchronized(runs.put(query, run))
      tellOnce(query, run, door, operators)
      standbys.foreach(_.planned(query, run, operators))
      val hasPlan = !waitsForPlan || !patience.isHopeful || patience.spend(run)(table.awaitPlanFor(query, _)(patience.isHopeful))
      for (running <- door) prefetches.foreach(_.begin(running, operators.filter(_.stores.nonEmpty).distinctBy(_.id)))
      if (!hasPlan) Say.trouble(s"no plan for query $query in time (spark.mooring.host.affinity.wait): its first batch runs where Spark puts it")
    }
    begins(query, run, operators.head.batch)
  }

  /** A batch may be planned several times. */
  private def begins(query: String, run: String, batch: Long): Unit = synchronized {
    val known = Option(underWay.get(query)).exists(_.is(run, batch))
    if (runs.get(query) == run && !known) {
      underWay.put(query, QueryWatch.Begun(run, batch, System.currentTimeMillis()))
      bridge.tell(Map("event" -> "BatchBegan", "query" -> query, "batch" -> batch), about = Some(QueryWatch.aboutBatchOf(query)))
    }
  }

  /** A batch was committed; the next one may be under way already. */
  def committed(query: String, run: String, batch: Long): Unit = synchronized {
    if (runs.get(query) == run) bridge.amend(QueryWatch.about(query), "batch" -> (batch + 1))
    if (Option(underWay.get(query)).exists(_.is(run, batch))) isOver(query)
  }

  /** The query had nothing to do at this time. That a batch had ended may not have been heard: a listener's queue can overflow. */
  def idle(query: String, run: String, atMs: Long): Unit = synchronized {
    if (Option(underWay.get(query)).exists(begun => begun.run == run && begun.atMs < atMs)) {
      isOver(query)
      bridge.tell(Map("event" -> "QueryIdle", "query" -> query))
    }
  }

  private def isOver(query: String): Unit = {
    underWay.remove(query)
    bridge.over(QueryWatch.aboutBatchOf(query))
  }

  def isStateful(query: String): Boolean = runs.containsKey(query)

  def ended(query: String, run: String, error: Option[String]): Unit = {
    repeated.remove(run)
    planned.remove(run)
    patience.ended(run)
    prefetches.foreach(_.ended(run))
    synchronized {
      val isKnown = told.remove(run) != null
      if (runs.remove(query, run)) { // else a newer run of it is there already
        computed.remove(query)
        isOver(query)
        PlacedStages.forget(query)
        if (isKnown) {
          bridge.over(QueryWatch.about(query))
          bridge.tell(Map("event" -> "QueryEnded", "query" -> query, "run" -> run, "error" -> error.getOrElse("")))
        }
      }
    }
    standbys.foreach(_.ended(query, run)) // last: a run that has ended is not begun to be watched any more
  }
}

object QueryWatch {
  type Look = FutureTask[(StreamDoor, Seq[OperatorFacts])]
  private type Shape = (Long, Set[(Long, Int)]) // first batch; operators, and partitions of each

  private def shapeOf(operators: Seq[OperatorFacts]): Shape = (operators.head.batch, operators.map(one => one.id -> one.partitions).toSet)

  private final case class Begun(run: String, batch: Long, atMs: Long) {
    def is(otherRun: String, other: Long): Boolean = run == otherRun && batch == other
  }

  private def about(query: String): String = s"query $query"

  private def aboutBatchOf(query: String): String = s"batch of $query"

  private val LongestMs = 10000L
}

/**
 * Executors that come and go, and where the tasks of placed stages ran. Called by one thread, in order; `redirect` by any.
 */
final class ClusterWatch(
    context: SparkContext, bridge: Bridge, table: PlacementTable, queries: QueryWatch, standbys: Option[Standbys],
    takesOver: Boolean, census: Census, reports: ReportDesk, rehearsals: Rehearsals, withheld: Option[WithheldOffers])
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
  private def awaitNoteOf(lost: String): Unit = Aside.otherwise("redirection of tasks", ()) {
    val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ClusterWatch.NoteMs)
    while (PendingTasks.areSentTo(context, lost) && System.nanoTime() - end < 0) TimeUnit.MILLISECONDS.sleep(2)
  }

  /**
   * The tasks that wait in running stages for executors that are gone, or that may not have them, go where the plan wants
   * them now. Without copies those of a lost executor wait as on stock: it may come back to its host.
   */
  def redirect(): Unit = Aside.otherwise("redirection of tasks", ()) {
    if (takesOver) PendingTasks.askAnew(context)
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
  def watchLosses(): Unit = Aside.otherwise("redirection of tasks", ())(LossWatch.begin(context, isLost, leaves))

  private def isLost(executor: String): Unit = if (takesOver) Aside.otherwise("redirection of tasks", ()) {
    table.executorLost(executor)
    redirect(PendingTasks.HeldBack)
  }

  private def leaves(): Unit = { // by another thread, which gets the lock when Spark has noted it
    Daemon.start("mooring-decommission")(Aside.otherwise("redirection of tasks", ())(lookAtOffers()))
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

/**
 * Tells the agent of executors and their locations, each when both Spark and the executor itself have spoken, in whichever
 * order: one that is still warming up is not there yet.
 */
final class Census(bridge: Bridge) {
  private val added = scala.collection.mutable.Map[String, (String, Int)]()
  private val located = scala.collection.mutable.Map[String, (String, String)]() // executor -> location, zone

  def added(executor: String, host: String, cores: Int): Unit = synchronized {
    added(executor) = (host, cores)
    tell(executor)
  }

  def located(executor: String, location: String, zone: String): Unit = synchronized {
    located(executor) = (location, zone)
    tell(executor)
  }

  def removed(executor: String, reason: String): Unit = synchronized {
    added.remove(executor)
    located.remove(executor)
    bridge.over(s"executor $executor")
    bridge.over(s"version of $executor")
    bridge.tell(Map("event" -> "ExecutorLost", "executor" -> executor, "reason" -> reason))
  }

  private def tell(executor: String): Unit =
    for ((host, cores) <- added.get(executor); (location, zone) <- located.get(executor)) {
      val place = if (location.isEmpty) host else location.replace(Location.Host, host)
      bridge.tell(Map("event" -> "ExecutorRegistered", "executor" -> executor, "host" -> host, "location" -> place,
        "zone" -> zone, "cores" -> cores), about = Some(s"executor $executor"))
    }
}
