package io.mooring.driver

import java.util.concurrent.{ConcurrentHashMap, FutureTask}

import io.mooring.agent.{Bridge, StartWaitBudget}
import io.mooring.common.{FailOpen, Daemon, Log}
import io.mooring.placement.{PlacedStages, PlacementTable}
import io.mooring.restore.Prefetches
import io.mooring.standby.Standbys
import org.apache.spark.sql.execution.streaming.state.shims.{OperatorFacts, StreamShim, StreamShims}

/**
 * Tells the agent which stateful queries run, and which operators and partitions they have. Before the first batch of a run it
 * waits for the agent's plan.
 *
 * Threads: the stream's thread (`lookAhead`, `starts`, `planned`), the thread that sends tasks (`computes`), and Spark's
 * listener thread (`committed`, `idle`, `ended`). When the agent cannot be told of a query, or no plan comes in time, the
 * batch runs where Spark puts it. Events: QueryPlanned, BatchBegan, QueryIdle, QueryEnded.
 *
 * @param waitsForPlan          whether a plan can place tasks: not so in local mode, where all tasks run in this JVM
 * @param executorsComeForTasks whether Spark starts executors only for tasks that wait: then no executor comes while a query waits for one
 */
final class QueryWatch(
    bridge: Bridge, table: PlacementTable, standbys: Option[Standbys], prefetches: Option[Prefetches], startWait: StartWaitBudget,
    waitsForPlan: Boolean, executorsComeForTasks: Boolean) {
  private val runs = new ConcurrentHashMap[String, String]() // query id -> id of its newest run; written with the lock
  private val plannedRuns = ConcurrentHashMap.newKeySet[String]() // ids of runs whose first batch was planned
  private val computed = new ConcurrentHashMap[String, Long]() // query id -> the last batch of which a task was sent
  private val knownShapes = new ConcurrentHashMap[String, QueryWatch.Shape]() // run id -> the shape that the agent knows
  private val underWay = new ConcurrentHashMap[String, QueryWatch.BatchUnderWay]() // query id -> the newest batch; written with the lock
  private val repeated = new ConcurrentHashMap[String, Long]() // run id -> the batch that an earlier run has begun and not committed

  /** The run begins with a batch that an earlier run has begun and not committed. */
  def repeats(run: String, batch: Long): Unit = { repeated.put(run, batch); () }

  def isRepeated(operator: OperatorFacts): Boolean = repeated.getOrDefault(operator.runId, -1) == operator.batch

  /**
   * The run repeats the batches up to `until`. Its sink may remember these batches, and skip them. `computed` tells for each batch
   * whether tasks have computed its state; if not, it is computed beside the sink.
   */
  def completesBatches(query: StreamShim, until: Long): Unit =
    query.completeBatches(until)(computed.getOrDefault(query.id, -1) == _)

  /** The batch's first task with state is about to be sent. */
  def computes(query: String, batch: Long): Unit = { computed.put(query, batch); () }

  /** Begins to read, in a thread of its own, which stateful operators the checkpoint names. None for a query that is not placed. */
  def lookAhead(query: StreamShim): Option[QueryWatch.Look] = Option.when(query.isStateful && !query.isRealTime) {
    val look = new FutureTask(() => {
      val ahead = query.withFreshLogs
      ahead -> ahead.operatorsInCheckpoint
    })
    Daemon.start(s"mooring-look-${query.id}")(look.run())
    look
  }

  /**
   * A run starts. A new thread tells the agent which operators the checkpoint names, waits for the plan, and begins to fetch the
   * state. Most often this is done before the first batch is planned. The stream's thread does not wait.
   */
  def starts(query: StreamShim, look: QueryWatch.Look): Unit = {
    val run = query.runId
    synchronized(runs.put(query.id, run))
    Daemon.start(s"mooring-start-${query.id}")(FailOpen.forAWhile("look at a query that starts", (), !query.isActive) {
      val (ahead, operators) = look.get() // `ahead` is the same query, with its logs as they were at the look
      if (operators.nonEmpty && tellOnce(query.id, run, Some(ahead), operators)) {
        synchronized(if (runs.get(query.id) == run) standbys.foreach(_.starts(query.id, run, operators)))
        val hasPlan = !waitsForPlan || table.awaitPlanFor(query.id, QueryWatch.LongestMs)(startWait.isAgentExpected && runs.get(query.id) == run)
        if (hasPlan && runs.get(query.id) == run) prefetches.foreach(_.begin(ahead, operators))
      }
    })
    ()
  }

  /** Sends QueryPlanned, unless the run has ended, or the agent knows this shape. Whether it was sent. */
  private def tellOnce(query: String, run: String, running: Option[StreamShim], operators: Seq[OperatorFacts]): Boolean = synchronized {
    val shape = QueryWatch.shapeOf(operators)
    val isNew = runs.get(query) == run && knownShapes.put(run, shape) != shape
    if (isNew) bridge.tell(Map("event" -> "QueryPlanned", "query" -> query, "run" -> run,
      "name" -> running.map(_.name).getOrElse(""), "checkpoint" -> operators.head.stateDir.stripSuffix("/state"),
      "batch" -> operators.head.batch, "provider" -> running.flatMap(_.setting(StreamShims.ProviderKey)).getOrElse(""),
      "operators" -> operators.map(o => Map("id" -> o.id, "partitions" -> o.partitions))), about = Some(QueryWatch.about(query)))
    isNew
  }

  /** A batch of the query was planned. Before the first batch of a run, waits for the plan. */
  def planned(query: String, operators: Seq[OperatorFacts]): Unit = {
    val run = operators.head.runId
    if (plannedRuns.add(run)) {
      val running = StreamShims.query(query)
      synchronized(runs.put(query, run))
      tellOnce(query, run, running, operators)
      standbys.foreach(_.planned(query, run, operators))
      val canNotCome = executorsComeForTasks && table.aliveCount == 0
      val hasPlan = !waitsForPlan || canNotCome || !startWait.isAgentExpected ||
        startWait.spend(run)(table.awaitPlanFor(query, _)(startWait.isAgentExpected))
      for (found <- running) prefetches.foreach(_.begin(found, operators.filter(_.stores.nonEmpty).distinctBy(_.id)))
      if (canNotCome) Log.info(s"query $query has no executor, and Spark starts one for tasks that wait: its first batch runs where Spark puts it")
      if (!hasPlan) Log.trouble(s"no plan for query $query in time (spark.mooring.host.affinity.wait): its first batch runs where Spark puts it")
    }
    batchBegins(query, run, operators.head.batch)
  }

  /** Called several times for a batch that Spark plans several times. */
  private def batchBegins(query: String, run: String, batch: Long): Unit = synchronized {
    val known = Option(underWay.get(query)).exists(_.is(run, batch))
    if (runs.get(query) == run && !known) {
      underWay.put(query, QueryWatch.BatchUnderWay(run, batch, System.currentTimeMillis()))
      bridge.tell(Map("event" -> "BatchBegan", "query" -> query, "batch" -> batch), about = Some(QueryWatch.aboutBatchOf(query)))
    }
  }

  /** A batch was committed; the next one may be under way already. */
  def committed(query: String, run: String, batch: Long): Unit = synchronized {
    if (runs.get(query) == run) bridge.amend(QueryWatch.about(query), "batch" -> (batch + 1))
    if (Option(underWay.get(query)).exists(_.is(run, batch))) batchIsOver(query)
  }

  /** The query had nothing to do at this time. The end of its last batch may have been lost: a listener's queue can overflow. */
  def idle(query: String, run: String, atMs: Long): Unit = synchronized {
    if (Option(underWay.get(query)).exists(begun => begun.run == run && begun.atMs < atMs)) {
      batchIsOver(query)
      bridge.tell(Map("event" -> "QueryIdle", "query" -> query))
    }
  }

  private def batchIsOver(query: String): Unit = {
    underWay.remove(query)
    bridge.over(QueryWatch.aboutBatchOf(query))
  }

  def isStateful(query: String): Boolean = runs.containsKey(query)

  def ended(query: String, run: String, error: Option[String]): Unit = {
    repeated.remove(run)
    plannedRuns.remove(run)
    startWait.ended(run)
    prefetches.foreach(_.ended(run))
    synchronized {
      val isKnown = knownShapes.remove(run) != null
      if (runs.remove(query, run)) { // otherwise a newer run of the query has started
        computed.remove(query)
        batchIsOver(query)
        PlacedStages.queryEnded(query)
        if (isKnown) {
          bridge.over(QueryWatch.about(query))
          bridge.tell(Map("event" -> "QueryEnded", "query" -> query, "run" -> run, "error" -> error.getOrElse("")))
        }
      }
    }
    standbys.foreach(_.ended(query, run)) // last: since `runs.remove`, no copies of this run are begun
  }
}

object QueryWatch {
  type Look = FutureTask[(StreamShim, Seq[OperatorFacts])]
  private type Shape = (Long, Set[(Long, Int)]) // the first batch; the operators, with the number of their partitions

  private def shapeOf(operators: Seq[OperatorFacts]): Shape = (operators.head.batch, operators.map(operator => operator.id -> operator.partitions).toSet)

  private final case class BatchUnderWay(run: String, batch: Long, atMs: Long) {
    def is(otherRun: String, other: Long): Boolean = run == otherRun && batch == other
  }

  // The names under which the bridge keeps these events.
  private def about(query: String): String = s"query $query"

  private def aboutBatchOf(query: String): String = s"batch of $query"

  private val LongestMs = 10000L // the wait for the plan before state is fetched ahead
}
