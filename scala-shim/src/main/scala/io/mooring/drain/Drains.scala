package io.mooring.drain

import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.agent.{Bridge, StartWaitBudget}
import io.mooring.common.{Daemon, FailOpen, LastUsed, Log}

import org.apache.spark.sql.execution.streaming.state.shims.{DrainLog, DrainValve, Ending, Intake, StreamShim, StreamShims}

/**
 * Drains the queries of this application, and ends queries in the other ways of `mooring stop`.
 *
 * The agent decides which queries are drained, and in which order. This class carries it out. A DrainValve ends a run, and a
 * DrainJournal records the progress. At the start of a query, the markers in its checkpoint (DrainMarkers) decide what happens: a
 * drain is resumed, or the query is held until the agent orders its drain, or the query is refused (StartRules).
 *
 * Threads: the thread that serves the agent (`begin`, `request`, `noteRequested`), the stream's thread (`atStart`), and Spark's
 * listener thread (`ended`). Depends on private members of `MicroBatchExecution`, through `DrainValve` and SparkInternals. Without
 * these, queries can only be stopped at once. When the markers can not be read, the query is refused, as it might lose events. When
 * a drain can not begin, the query continues without it, unless the query was started for its drain only.
 *
 * Events: DrainProgressed, DrainOwed, QueryStarting.
 *
 * @param resumeDrained `spark.mooring.resume.drained`: false, true or reset
 * @param drainOnStart  `spark.mooring.drain.on.start`: each query is started for its drain only
 */
final class Drains(bridge: Bridge, application: () => String, resumeDrained: String, drainOnStart: Boolean, startWait: StartWaitBudget) {
  import Drains._

  private val resetsDrained = resumeDrained == "reset"
  private val acceptsDrained = resumeDrained == "true"

  private val runs = new ConcurrentHashMap[String, DrainedRun]() // by run id, until the run is over
  private val checkpoints = new LastUsed[String, String](LastUsed.Queries) // query id -> checkpoint, of queries that have started
  private val lastBeforeRestore = new ConcurrentHashMap[String, Long]() // checkpoint -> the last batch that was begun before a restore
  private val drainSet = ConcurrentHashMap.newKeySet[String]() // the checkpoints that this application drains together
  private val failedQueries = ConcurrentHashMap.newKeySet[String]() // ids of queries that ended before their drain was over

  // Changed with the lock of this object.
  private var finishedRequests = 0
  private var isRequestAwaited = true // whether a query that starts still waits for the agent's first `request`
  private var requested: Option[Seq[Option[String]]] = None // the argument of the last `request`; None before the first one

  /**
   * Ends a running query. A second call does nothing, unless it requests an earlier end. A query that does not run is left
   * alone. A query that is held since its start is released. With `zeroInput`, that query then reads no input. But if queries
   * that feed it were drained before, it reads the output of their flush.
   */
  def begin(query: String, how: Ending, zeroInput: Boolean): Unit = for (running <- StreamShims.query(query)) synchronized {
    val run = runOf(running)
    val readsNothing = zeroInput && !run.isFedByOthers
    val isUnderWay = run.end match {
      case RequestedEnd.Begun(valve) => valve.end(how, readsNothing)
      case _ => false
    }
    if (!isUnderWay && register(running, beginNow(running, how)).isDefined) forgetRequest(running)
  }

  /** A fault, such as a log that can not be read, counts as a refusal: otherwise the agent would wait for the end of the query. */
  private def beginNow(running: StreamShim, how: Ending): Either[String, DrainValve] =
    try DrainValve.begin(running, how, journalOf(running, firstBatchToCount(running, how)))(notBegun(running, mayContinue = true))
    catch { case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => Left(s"its end could not be begun ($e)") }

  /** A log that can not be read does not keep a query from being stopped now: then its batches are counted from the first one. */
  private def firstBatchToCount(query: StreamShim, how: Ending): Long =
    try firstBatchAfter(query)
    catch { case NonFatal(_) if how == Ending.Now => 0 }

  private def firstBatchAfter(query: StreamShim): Long = query.lastCommitted.fold(0L)(_ + 1)

  /**
   * Sets the queries of which a drain is requested: names or ids; None stands for all queries. Such a query is held if it starts
   * from now on. A query that is held and is not among these is released. An empty sequence means that all requested drains are
   * over.
   */
  def request(queries: Seq[Option[String]]): Unit = synchronized {
    if (queries.isEmpty && requested.exists(_.nonEmpty)) {
      finishedRequests += 1
      failedQueries.forEach(query => bridge.over(aboutDrainOf(query))) // the next request does not wait for these queries
      failedQueries.clear()
    }
    requested = Some(queries)
    for (run <- runs.values.asScala; valve <- run.heldAtStart if !isRequested(run.query)) {
      if (valve.isHeld) run.isToFinish = false
      valve.giveUp()
    }
    notifyAll()
  }

  /** How many requests have finished: each of their queries was drained, or can not be drained. */
  def requestsFinished: Int = synchronized(finishedRequests)

  /**
   * Writes into the checkpoints of queries that they are to be drained. `after` maps each query to the queries that are to be
   * drained before it. If the application ends before the drain is over, the next start of these queries resumes the drain.
   */
  def noteRequested(after: Map[String, Seq[String]]): Unit = synchronized {
    val queries = after.keys.toSeq.flatMap(StreamShims.query(_))
    queries.filter(query => after(query.id).nonEmpty).foreach(query => runOf(query).isFedByOthers = true)
    queries.foreach(query => drainSet.add(query.checkpoint))
    for (query <- queries if runOf(query).isBeforeDrain) FailOpen.otherwise("note what is to be drained", ()) {
      journalOf(query).requested(after(query.id).flatMap(id => checkpoints.get(id).map(id -> _)).toMap)
    }
  }

  /**
   * The last batch that the query had begun when its checkpoint was restored to an earlier batch. The query's sink may remember
   * the batches up to this one.
   */
  def lastBatchBeforeRestore(checkpoint: String): Option[Long] =
    Option.when(lastBeforeRestore.containsKey(checkpoint))(lastBeforeRestore.get(checkpoint))

  /** Follows the markers of the query's checkpoint. Called on the stream's thread, before the stream reads its logs. */
  def atStart(query: StreamShim): Unit = {
    StartRules.forget(query.checkpoint)
    lastBeforeRestore.remove(query.checkpoint)
    checkpoints.put(query.id, query.checkpoint)
    DrainValve.prepare(query)
    try {
      val markers = markersOf(query.checkpoint)
      markers.restoringTo match {
        case None =>
          markers.lastBatchBeforeRestore.foreach(lastBeforeRestore.put(query.checkpoint, _))
          followMarkers(query, markers)
        case Some(batch) =>
          StartRules.refuse(query.checkpoint, s"${query.checkpoint} is on its way back to batch $batch and not there yet: " +
            s"`mooring restore ${query.checkpoint} --to-batch $batch` goes on with that")
      }
      if (StartRules.refusal(query.checkpoint).isEmpty && !isEndRequested(query)) holdIfRequested(query, markers)
    } catch {
      case NonFatal(_) if !query.isActive => // the query was stopped while it started, and begins no batch
      case NonFatal(e) => StartRules.refuse(query.checkpoint, s"what ${query.checkpoint}/${DrainMarkers.Directory} says of a drain or a " +
        s"restore can not be read ($e): a drained checkpoint would count every new event as late. Try again, or remove the file")
    }
  }

  private def followMarkers(query: StreamShim, markers: DrainMarkers): Unit = {
    def isOfNewestBatch(marker: DrainMarker) = query.lastCommitted.exists(_ <= marker.batch)
    markers.drained.filter(isOfNewestBatch) match {
      case Some(drained) => startDrained(query, markers, drained)
      case None => for (draining <- markers.draining) draining.phase match {
        case DrainingPhase.Asked if resetsDrained => forgetRequest(query)
        case DrainingPhase.Asked if drainOnStart => addToDrainSet(draining) // the agent orders the drains of all queries
        case DrainingPhase.Asked => resumeRequested(query, draining)
        case _ if resetsDrained => resetDrain(markers, draining)
        case phase => resumeDrain(query, draining, isFlushing = phase == DrainingPhase.Flushing)
      }
    }
    markers.reset.foreach(StartRules.reset(query.checkpoint, _))
  }

  /**
   * The checkpoint is drained. Refuses the query, unless the user has allowed it, or other checkpoints of the drain are not drained
   * yet; then the query ends at once.
   */
  private def startDrained(query: StreamShim, markers: DrainMarkers, drained: DrainMarker): Unit = {
    markers.deleteUnfinished() // the run that was drained may have been killed before it has deleted them
    val isWithOthersUnderWay = drainOnStart || drained.checkpoints.exists(markersOf(_).draining.isDefined)
    if (resetsDrained) markers.writeReset(WatermarkReset(drained.batch, drained.batch, 0))
    else if (!acceptsDrained && !(isWithOthersUnderWay && endAtOnce(query, drained.batch)))
      StartRules.refuse(query.checkpoint, s"the checkpoint ${query.checkpoint} was drained: its state " +
        "is flushed, and its watermark so far ahead that every new event would count as late. Start with a new checkpoint, " +
        "or set spark.mooring.resume.drained to reset (go on from its offsets with a fresh watermark) or to true")
  }

  /** Ends the query before its first batch. False when it can not be ended so, or the agent has ordered another end meanwhile. */
  private def endAtOnce(query: StreamShim, lastBatch: Long): Boolean = synchronized(!isEndRequested(query) && {
    Log.info(s"query ${query.label} was drained before: it ends at once")
    register(query, DrainValve.beginAtStart(query, Ending.AfterBatch, Intake.Nothing, new DrainLog {
      override def frozen(next: Long, ending: Ending, zeroInput: Boolean): Unit = ()
      override def caughtUp(next: Long, watermarkMs: Long): Unit = ()
      override def flushed(batch: Long, removed: Long, left: Long): Unit = ()
      override def drained(last: Long): Unit = ()
      override def stopped(next: Long, how: Ending): Unit = sendProgress(query, DrainProgress.Drained, Seq("batch" -> lastBatch))
    })(notBegun(query, mayContinue = false))).isEmpty
  })

  /**
   * The user resets an unfinished drain, and the query continues without it. The entries of batches that flushed are read with the
   * watermark from before the flush.
   */
  private def resetDrain(markers: DrainMarkers, draining: DrainingMarker): Unit = {
    val firstFlush = draining.batch + 1
    markers.writeReset(WatermarkReset(firstFlush, firstFlush + DrainValve.MostFlushes, draining.watermarkMs))
    markers.deleteDraining()
  }

  /** A drain was requested in an earlier run, and had not begun. It begins now, if all queries that come before this one are drained. */
  private def resumeRequested(query: StreamShim, draining: DrainingMarker): Unit = synchronized {
    addToDrainSet(draining)
    val missing = draining.after.collect { case (before, checkpoint) if markersOf(checkpoint).drained.isEmpty => before }
    Log.info(s"query ${query.label} was to be drained when it ended" + (if (missing.isEmpty) "" else ": it waits for those that feed it"))
    sendOwed(query, missing)
    if (missing.isEmpty && !isEndRequested(query))
      for (reason <- beginDrainAtStart(query, Intake.All, mayContinue = true)) {
        forgetRequest(query)
        Log.warn(s"query ${query.label} goes on without the drain that was asked for: $reason")
      }
  }

  /** A drain had begun in an earlier run. Resumes it. */
  private def resumeDrain(query: StreamShim, draining: DrainingMarker, isFlushing: Boolean): Unit = {
    if (isFlushing) runOf(query).firstFlush = draining.batch + 1
    addToDrainSet(draining)
    sendOwed(query, after = Nil)
    val intake = if (isFlushing || draining.readsNothing) Intake.Nothing else Intake.All
    synchronized {
      if (!isEndRequested(query))
        for (reason <- beginDrainAtStart(query, intake, mayContinue = false))
          StartRules.refuse(query.checkpoint, s"a drain of it is not over, and can not go on: $reason")
    }
  }

  /**
   * Holds a query whose drain was requested before its start. The query reads nothing until the agent orders its drain, as queries
   * that feed it may have to be drained before. The first query of the application that starts waits for the first `request`.
   */
  private def holdIfRequested(query: StreamShim, markers: DrainMarkers): Unit = synchronized {
    val isNoted = markers.isToDrain
    val isForDrainOnly = drainOnStart || isNoted
    if (isNoted) sendOwed(query, after = Nil, isHeld = true)
    if (!isForDrainOnly && startWait.isAgentExpected && (requested.isEmpty && isRequestAwaited && query.isStateful || isRequested(query))) {
      bridge.tell(Map("event" -> "QueryStarting", "query" -> query.id, "run" -> query.runId, "checkpoint" -> query.checkpoint),
        about = Some(aboutStartOf(query.runId)))
      if (requested.isEmpty) startWait.spend(query.runId)(mostMs => awaitRequest(System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(mostMs) / 2))
      isRequestAwaited = false
    }
    if (isForDrainOnly && !startWait.isAgentExpected)
      StartRules.refuse(query.checkpoint, "it is to be drained at its start, and there is no agent to say when: see spark.mooring.agent.python")
    else if (isEndRequested(query)) bridge.over(aboutStartOf(query.runId)) // while the wait had released the lock
    else if (isForDrainOnly || isRequested(query)) hold(query, isForDrainOnly)
    else bridge.over(aboutStartOf(query.runId))
  }

  private def hold(query: StreamShim, isForDrainOnly: Boolean): Unit = {
    val intake = Intake.Later(() => startWait.isAgentExpected, isForDrainOnly)
    val valve = DrainValve.beginAtStart(query, Ending.Drained, intake, journalOf(query))(notBegun(query, mayContinue = !isForDrainOnly))
    if (!isForDrainOnly) valve.foreach(begun => runOf(query).heldAtStart = Some(begun))
    for (reason <- register(query, valve))
      if (isForDrainOnly) StartRules.refuse(query.checkpoint, s"it is to be drained at its start, and can not be: $reason")
      else Log.warn(s"query ${query.label} starts although a drain was asked for: $reason")
  }

  /** Waits for the first `request`, until `end` (`System.nanoTime`). Called with the lock, which the wait releases. */
  private def awaitRequest(end: Long): Unit =
    try while (requested.isEmpty && startWait.isAgentExpected && System.nanoTime() < end) wait(LookAgainMs)
    catch { case _: InterruptedException => } // the query is being stopped, and notices that next; Spark would drop a listener that throws this

  /** A run is over. `error` is Spark's message about a run that failed. */
  def ended(runId: String, error: Option[String]): Unit = {
    Seq(aboutOwedTo(runId), aboutStartOf(runId)).foreach(bridge.over)
    startWait.ended(runId)
    // Spark may report the end of a run after the next run of the query has started.
    def hasNewerRun(query: StreamShim) = runs.values.asScala.exists(other => other.isToFinish && other.query.id == query.id)
    for (run <- Option(runs.remove(runId)) if run.isToFinish && !run.hasFinished && !hasNewerRun(run.query)) {
      failedQueries.add(run.query.id)
      val reason = error.fold("nothing failed: it ended by itself, or was stopped")(text => s"it failed: ${firstLine(text)}")
      sendProgress(run.query, DrainProgress.Failed, Seq("writes" -> Seq(run.query.sinkAsDescribed), "reason" -> reason))
    }
  }

  /** Whether this batch flushes the state of the query on whose thread it is called, such as windows that are not full. */
  def isFlush(batch: Long): Boolean =
    StreamShims.ofThisThread.flatMap(query => Option(runs.get(query.runId))).exists(_.isFlush(batch))

  /** The state of a run's drain in a batch: 0 before the drain, 1 while the run catches up, 2 while it flushes its state. */
  def stateOf(runId: String, batch: Long): Int = Option(runs.get(runId)) match {
    case Some(run) if run.isFlush(batch) => 2
    case Some(run) if run.isFrozen => 1
    case _ => 0
  }

  /** The run's entry. A run that is over gets none: `ended` would never remove it. */
  private def runOf(query: StreamShim): DrainedRun =
    Option(runs.computeIfAbsent(query.runId, _ => if (query.isRegistered) new DrainedRun(query) else null)).getOrElse(new DrainedRun(query))

  private def isEndRequested(query: StreamShim) = Option(runs.get(query.runId)).exists(_.end != RequestedEnd.NotRequested)

  private def isRequested(query: StreamShim) = requested.exists(_.exists(_.forall(Set(query.id, query.name))))

  /** A run that has a valve must not get a second one: each valve waits until the other has let the query go. */
  private def beginDrainAtStart(query: StreamShim, intake: Intake, mayContinue: Boolean): Option[String] =
    register(query, DrainValve.beginAtStart(query, Ending.Drained, intake, journalOf(query))(notBegun(query, mayContinue)))

  /** Notes the outcome of a request to end a run. Returns the reason of a refusal. */
  private def register(query: StreamShim, valve: Either[String, DrainValve]): Option[String] = {
    val run = runOf(query)
    run.end = valve.fold(_ => RequestedEnd.Refused, RequestedEnd.Begun(_))
    if (valve.isRight) run.isToFinish = true
    valve.left.toOption.map { reason =>
      Log.warn(s"query ${query.label} can not be ended so: $reason")
      sendProgress(query, DrainProgress.Refused, Seq("reason" -> reason))
      reason
    }
  }

  /**
   * A registered valve could not be put into the query: the request counts as refused. With `mayContinue` the query runs on as if no
   * drain had been requested. Otherwise it is stopped. Called by a thread of the valve.
   */
  private def notBegun(query: StreamShim, mayContinue: Boolean)(reason: String): Unit = {
    // Before the wait for the lock: the stream may read its logs, or write its next batch, as soon as the progress lock is free.
    if (!mayContinue) StartRules.refuse(query.checkpoint, s"it is to be drained, and can not be: $reason")
    synchronized {
      val run = runOf(query)
      run.isToFinish = false
      run.heldAtStart = None
      register(query, Left(reason))
      if (mayContinue) FailOpen.otherwise("note that a drain is not begun", ())(forgetRequest(query))
      else {
        Daemon.start("mooring-drain-stop")(FailOpen.otherwise("stop of a query", ())(query.stop()))
        ()
      }
    }
  }

  private def forgetRequest(query: StreamShim): Unit = markersOf(query.checkpoint).deleteDraining()

  private def addToDrainSet(marker: DrainMarker): Unit = marker.checkpoints.foreach(drainSet.add)

  private def markersOf(checkpoint: String) = new DrainMarkers(bridge.files(s"$checkpoint/${DrainMarkers.Directory}"))

  private def journalOf(query: StreamShim): DrainJournal = journalOf(query, firstBatchAfter(query))

  private def journalOf(query: StreamShim, firstBatch: Long) = new DrainJournal(query, runOf(query), markersOf(query.checkpoint),
    application, () => drainSet.asScala.toSeq, firstBatch, sendProgress(query, _, _))

  /** Tells the agent that the query is to be drained, by its checkpoint, once the queries `after` are drained. */
  private def sendOwed(query: StreamShim, after: Seq[String], isHeld: Boolean = false): Unit = bridge.tell(
    Map("event" -> "DrainOwed", "query" -> query.id, "after" -> after, "held" -> isHeld), about = Some(aboutOwedTo(query.runId)))

  private def sendProgress(query: StreamShim, progress: DrainProgress, more: Seq[(String, Any)]): Unit = {
    if (progress.isLast) runOf(query).hasFinished = true
    bridge.tell(Map[String, Any]("event" -> "DrainProgressed", "query" -> query.id, "name" -> query.name, "run" -> query.runId,
      "phase" -> progress.phase) ++ more, about = Some(aboutDrainOf(query.id)))
  }
}

private object Drains {
  private val MostOfAnError = 300 // characters
  private val LookAgainMs = 100L

  private def firstLine(text: String) = text.linesIterator.nextOption().getOrElse("").take(MostOfAnError)

  // The names under which the bridge keeps events for later agents.
  private def aboutDrainOf(query: String) = s"drain $query"
  private def aboutOwedTo(run: String) = s"drain owed to $run"
  private def aboutStartOf(run: String) = s"start of $run"
}
