package io.mooring.driver

import java.util.concurrent.{ConcurrentHashMap, FutureTask}

import io.mooring.agent.{Bridge, StartWaitBudget}
import io.mooring.common.{FailOpen, Daemon, Log}
import io.mooring.placement.{PlacedStages, PlacementTable}
import io.mooring.restore.Prefetches
import io.mooring.standby.Standbys
import org.apache.spark.sql.execution.streaming.state.shims.{OperatorFacts, StreamShim, StreamShims}

/** Watches stateful queries: tells the agent of them, and waits for the plan before a run's first batch if there is any. */
final class QueryWatch(
    bridge: Bridge, table: PlacementTable, standbys: Option[Standbys], prefetches: Option[Prefetches], patience: StartWaitBudget,
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
  def comesAgain(query: StreamShim, until: Long): Unit =
    query.completeBatches(until)(computed.getOrDefault(query.id, -1) == _)

  /** The batch's first task with state is about to be sent. */
  def computes(query: String, batch: Long): Unit = { computed.put(query, batch); () }

  /** What the checkpoint of a run that is about to start says of its operators, by a thread of its own; None without state. */
  def lookAhead(query: StreamShim): Option[QueryWatch.Look] = Option.when(query.isStateful) {
    val look = new FutureTask(() => {
      val shim = query.another
      shim -> shim.operatorsInCheckpoint
    })
    Daemon.start(s"mooring-look-${query.id}")(look.run())
    look
  }

  /**
   * A run starts; in the stream's thread, which does not wait. The agent hears what it is to run long before its first batch
   * is planned, as a rule: so the plan is there by then, and the state is under way.
   */
  def starts(query: StreamShim, look: QueryWatch.Look): Unit = {
    val run = query.runId
    synchronized(runs.put(query.id, run))
    Daemon.start(s"mooring-start-${query.id}")(FailOpen.forAWhile("look at a query that starts", (), !query.isActive) {
      val (shim, operators) = look.get()
      if (operators.nonEmpty && tellOnce(query.id, run, Some(shim), operators)) {
        synchronized(if (runs.get(query.id) == run) standbys.foreach(_.starts(query.id, run, operators)))
        val hasPlan = !waitsForPlan || table.awaitPlanFor(query.id, QueryWatch.LongestMs)(patience.isAgentExpected && runs.get(query.id) == run)
        if (hasPlan && runs.get(query.id) == run) prefetches.foreach(_.begin(shim, operators))
      }
    })
    ()
  }

  /** Whether the agent was told just now: not of a run that has ended, nor again of what it knows. */
  private def tellOnce(query: String, run: String, shim: Option[StreamShim], operators: Seq[OperatorFacts]): Boolean = synchronized {
    val shape = QueryWatch.shapeOf(operators)
    val isNews = runs.get(query) == run && told.put(run, shape) != shape
    if (isNews) bridge.tell(Map("event" -> "QueryPlanned", "query" -> query, "run" -> run,
      "name" -> shim.map(_.name).getOrElse(""), "checkpoint" -> operators.head.stateDir.stripSuffix("/state"),
      "batch" -> operators.head.batch, "provider" -> shim.flatMap(_.setting(StreamShims.ProviderKey)).getOrElse(""),
      "operators" -> operators.map(o => Map("id" -> o.id, "partitions" -> o.partitions))), about = Some(QueryWatch.about(query)))
    isNews
  }

  /** A batch of the query was planned; in the stream's thread. */
  def planned(query: String, operators: Seq[OperatorFacts]): Unit = {
    val run = operators.head.runId
    if (planned.add(run)) {
      val shim = StreamShims.query(query)
      synchronized(runs.put(query, run))
      tellOnce(query, run, shim, operators)
      standbys.foreach(_.planned(query, run, operators))
      val hasPlan = !waitsForPlan || !patience.isAgentExpected || patience.spend(run)(table.awaitPlanFor(query, _)(patience.isAgentExpected))
      for (running <- shim) prefetches.foreach(_.begin(running, operators.filter(_.stores.nonEmpty).distinctBy(_.id)))
      if (!hasPlan) Log.trouble(s"no plan for query $query in time (spark.mooring.host.affinity.wait): its first batch runs where Spark puts it")
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
  type Look = FutureTask[(StreamShim, Seq[OperatorFacts])]
  private type Shape = (Long, Set[(Long, Int)]) // first batch; operators, and partitions of each

  private def shapeOf(operators: Seq[OperatorFacts]): Shape = (operators.head.batch, operators.map(one => one.id -> one.partitions).toSet)

  private final case class Begun(run: String, batch: Long, atMs: Long) {
    def is(otherRun: String, other: Long): Boolean = run == otherRun && batch == other
  }

  private def about(query: String): String = s"query $query"

  private def aboutBatchOf(query: String): String = s"batch of $query"

  private val LongestMs = 10000L
}
