package io.mooring.agent

import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.jdk.CollectionConverters._

import io.mooring.allocation.HostsWanted
import io.mooring.common.{FailOpen, Daemon, Json, Metrics, Names, Log}
import io.mooring.election.{Leadership, Standing}
import io.mooring.placement.{PlacementTable, Plan}
import org.apache.spark.sql.execution.streaming.state.shims.{Ending, StreamShim, StreamShims}

/** What the agent can ask the driver to do, besides placing tasks. Called by the thread that serves the agent. */
trait Operations {

  /** A plan names copies of tasks: begins to make them, and to keep them up to date. */
  def beginCopies(): Unit

  /** Ends an executor once no task runs on it. Calls `onGivenUp` when that has not come within `waitMs`. Returns at once. */
  def restart(executor: String, waitMs: Long, onGivenUp: () => Unit): Unit

  /** Asks the cluster manager for executors on these hosts, now and at the next start. Returns at once. */
  def wantHosts(wanted: HostsWanted): Unit

  /** Ends a query in this way. With `zeroInput`, a query that is held since its start reads no input. Returns at once. */
  def end(query: String, how: Ending, zeroInput: Boolean): Unit

  /** Sets the queries of which a drain is requested, by names or ids; None stands for all queries. */
  def requestDrains(queries: Seq[Option[String]]): Unit

  /** Writes into the queries' checkpoints that they are to be drained, each after the queries that it is mapped to. */
  def noteDrains(after: Map[String, Seq[String]]): Unit

  /** A new agent begins. Sends the new agent again what the bridge does not keep: the states of copies. */
  def tellNewAgent(): Unit

  /** Opens a directory on any of Hadoop's file systems, with the credentials of the application. */
  def files(directory: String): DriverFiles
}

/**
 * Everything that passes between the JVM and the agent, as JSON strings (docs/internals.md).
 *
 * The agent calls it through Py4J: `hello` once, then `pollEvents` in a loop, and other methods to have something done. Each call
 * of `hello`, `pollEvents`, `end`, `requestDrains` or `noteDrains` is also a heartbeat of the agent. Any thread of the driver may call
 * `tell`, which queues an event and never waits for the agent. An agent that starts gets from `hello` every event that is still true;
 * queued events are dropped.
 * Where too many events wait, later ones are dropped: the next `pollEvents` fails, the agent ends, and another one is started.
 *
 * Events: PlanInForce, PlanPickedUp, ExecutorRestarting, RestartGivenUp.
 */
final class Bridge(table: PlacementTable, leadership: Option[Leadership], operations: Operations) {
  private type Event = Map[String, Any]

  private val kept = new ConcurrentHashMap[String, String]() // texts from one agent for the next one, such as its session with ZooKeeper

  private[mooring] val stateReports = new StateReports

  /** What executors have reported of committed state since the last call: at most `most` reports, as a JSON array. */
  def takeReports(most: Int): String = stateReports.take(most)

  /** The agent has written what was committed of the reports that it took. */
  def reportsWritten(): Unit = stateReports.written()

  private val queued = new LinkedBlockingQueue[Event](Bridge.MostEventsKept)
  private val restarts = ConcurrentHashMap.newKeySet[String]() // ids of requests to restart an executor that are not over
  private val givenUp = ConcurrentHashMap.newKeySet[String]() // ids of restart requests whose executor could not be ended
  private val lastCall = new AtomicLong(System.nanoTime())
  private val callsUnderWay = new AtomicInteger // calls of this agent that may wait: for an event, a lock or storage
  @volatile private var lastPlan = ""
  @volatile private var announced = -1L // the newest version of the job model
  @volatile private var isAgentInStep = false // whether this agent has called `hello`, and no event was dropped after that
  // Events that are still true, for agents that start later. The key names the subject of the event: an executor, a query, a batch, ...
  private val lasting = new ConcurrentHashMap[String, Event]()

  /** Queues an event for the agent. With `about`, the event stays true until `over(about)`, and every later agent gets it from `hello`. */
  def tell(event: Event, about: Option[String] = None): Unit = {
    val stamped = event + ("at" -> System.currentTimeMillis())
    about.foreach(lasting.put(_, stamped))
    // Without an agent nothing is queued: the next one starts with `hello`.
    if (isAgentInStep && !queued.offer(stamped)) isAgentInStep = false
  }

  /** Sets a field of an event that is still true, for later agents. The present agent learns the change from another event. */
  def amend(about: String, field: (String, Any)): Unit = { lasting.computeIfPresent(about, (_, event) => event + field); () }

  /** The event with this subject is not true any more. Later agents do not get it. */
  def over(about: String): Unit = { lasting.remove(about); () }

  /** A new agent begins. Returns all events that are still true, as a JSON array. Empties the queue of events. */
  def hello(): String = {
    noteHeartbeat()
    isAgentInStep = true
    queued.clear()
    operations.tellNewAgent()
    stateReports.requeueTaken() // the earlier agent may have ended before it had written them
    // Events that build on others come after them. All events that are not named here come first.
    val order = Seq("ApplicationStarted", "ExecutorRegistered", "CheckpointTaken", "QueryStarting", "QueryPlanned", "BatchBegan")
    val now = lasting.values().asScala.toSeq.sortBy(e => (order.indexOf(e("event").toString), e("at").asInstanceOf[Long]))
    Json.write(Map("event" -> "PlanInForce", "at" -> System.currentTimeMillis(), "plan" -> lastPlan,
      "announced" -> announced) +: now)
  }

  /**
   * The queued events as a JSON array; waits up to `timeoutMs` for the first. IllegalStateException before `hello`, and after events
   * were dropped.
   */
  def pollEvents(timeoutMs: Long): String = {
    if (!isAgentInStep) throw new IllegalStateException("events were dropped, or hello was not called: this agent has to end")
    serving {
      val events = Option(queued.poll(timeoutMs, TimeUnit.MILLISECONDS)).toBuffer
      val rest = new java.util.ArrayList[Event]()
      queued.drainTo(rest)
      Json.write(events ++ rest.asScala)
    }
  }

  /** A new version of the job model: executors take it up when they ask for the newest one. */
  def announce(version: Long): Unit = announced = version

  /** The version that executors are to take up; -1 for none. */
  def newest: Long = announced

  /** An executor has taken up a version. The event's name is old: executors get no plan. */
  def tookUp(executor: String, version: Long): Unit =
    tell(Map("event" -> "PlanPickedUp", "executor" -> executor, "version" -> version), about = Some(s"version of $executor"))

  /** Puts a plan in force from the next batch on. False where a newer one is in force. */
  def publish(planJson: String): Boolean = {
    val plan = Plan.parse(planJson)
    val accepted = table.accept(plan)
    if (accepted) lastPlan = planJson
    if (accepted && plan.standbys.nonEmpty) operations.beginCopies()
    accepted
  }

  /**
   * Ends an executor once no task runs on it, if that comes within `waitMs`. Spark then starts another executor. A second call for
   * the same request does not restart anything. If the restart was given up, it sends RestartGivenUp again, as the first event may
   * have gone to an earlier agent.
   */
  def restart(request: String, executor: String, waitMs: Long): Unit =
    if (restarts.add(request)) {
      tell(Map("event" -> "ExecutorRestarting", "request" -> request, "executor" -> executor), about = Some(s"restart $request"))
      operations.restart(executor, waitMs, () => {
        over(s"restart $request") // so that a later agent does not wait for the executor's end
        if (restarts.contains(request)) givenUp.add(request)
        tellGivenUp(request, executor)
      })
    } else if (givenUp.contains(request)) tellGivenUp(request, executor)

  /** A request to restart an executor is over, and its answer is in the store. Later agents do not hear of it. */
  def forgetRestart(request: String): Unit = {
    over(s"restart $request")
    restarts.remove(request)
    givenUp.remove(request)
    ()
  }

  /** The hosts on which executors are wanted: a JSON object with the fields of HostsWanted. */
  def wantHosts(json: String): Unit = serving {
    val wanted = Json.read(json)
    def texts(field: String) = wanted.get(field).asScala.toSeq.map(_.asText)
    operations.wantHosts(HostsWanted(texts("hosts"), wanted.get("at").properties().asScala.map(e => e.getKey -> e.getValue.asText).toMap,
      texts("avoided").toSet))
  }

  private def tellGivenUp(request: String, executor: String): Unit =
    tell(Map("event" -> "RestartGivenUp", "request" -> request, "executor" -> executor))

  /** Ends a query; may be called again. `how` is one of Ending's names. DrainProgressed events report the progress. */
  def end(query: String, how: String, zeroInput: Boolean): Unit = serving(operations.end(query, Ending.named(how), zeroInput))

  /** Sets the queries of which a drain is requested: a JSON array of names or ids, in which null stands for all queries. */
  def requestDrains(json: String): Unit = serving(operations.requestDrains(
    Json.read(json).asScala.toSeq.map(query => Option.when(!query.isNull)(query.asText))))

  /** Writes into checkpoints that queries are to be drained: `json` maps the id of each to the ids that come before it. */
  def noteDrains(json: String): Unit = serving(operations.noteDrains(
    Json.read(json).properties().asScala.map(e => e.getKey -> e.getValue.asScala.map(_.asText).toSeq).toMap))

  /** The running queries of the user, without those that bring copies up to date. */
  private[mooring] def running: Seq[StreamShim] = StreamShims.running.filterNot(_.reads(Names.StandbySource))

  /** The running queries of the user as a JSON array, with the descriptions of their sources and sinks. */
  def queries(): String = Json.write(running.map(query => Map("query" -> query.id, "run" -> query.runId, "name" -> query.name,
    "reads" -> query.sourcesAsDescribed, "writes" -> Seq(query.sinkAsDescribed), "ready" -> query.hasItsSources)))

  /** Takes the agent's standing in the election among the drivers of this job. False when this driver has lost. */
  def reportStanding(json: String): Boolean = leadership.forall { election =>
    val standing = Standing.parse(json)
    val lostBefore = election.isLost
    val takesPart = election.update(standing)
    if (!takesPart && !lostBefore) stopQueries(standing.leader)
    takesPart
  }

  /** Stops each query in a thread of its own, so that a query that does not end delays no other query. */
  private def stopQueries(leader: String): Unit = {
    Log.warn(s"another driver of this job, $leader, leads since: this one stops its queries before they commit")
    StreamShims.running.foreach { query =>
      Daemon.start("mooring-leadership-lost")(FailOpen.otherwise("stopping of queries", ())(query.stop()))
    }
  }

  /** Opens a directory on any of Hadoop's file systems, with the credentials of the application. */
  def files(directory: String): DriverFiles = operations.files(directory)

  /** Keeps a text for the next agent of this driver, in place of an earlier text of this name. */
  def keepForNextAgent(name: String, text: String): Unit = { kept.put(name, text); () }

  /** The text of this name that an earlier agent has kept; empty where there is none. */
  def fromEarlierAgent(name: String): String = kept.getOrDefault(name, "")

  /** Writes a warning of the agent to the driver's log. */
  def warn(message: String): Unit = Log.warn(message)

  /** Writes a warning about a fault outside of Mooring, such as a fault of a store. While the application ends, its level is INFO. */
  def warnUnlessEnding(message: String): Unit = Log.trouble(message)

  /** Writes a line of the agent to the driver's log, at level INFO. */
  def info(message: String): Unit = Log.info(message)

  /** Sets all gauges of the agent in Spark's metrics. `json` is an object that maps names to numbers. */
  def metrics(json: String): Unit =
    Metrics.setAgents(Json.read(json).properties().asScala.map(entry => entry.getKey -> entry.getValue.asDouble()).toMap)

  /** Whether the present agent has called `hello`, and no event was dropped after that. */
  def isGreeted: Boolean = isAgentInStep

  private[agent] def agentLaunched(): Unit = {
    isAgentInStep = false
    noteHeartbeat()
  }

  /**
   * How many seconds ago the agent's last heartbeat was; the class comment names the calls that are heartbeats. 0 while such a call is
   * under way: then the driver or its storage is slow, not the agent.
   */
  def secondsSinceLastCall: Long =
    if (callsUnderWay.get > 0) 0 else TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - lastCall.get)

  private def noteHeartbeat(): Unit = lastCall.set(System.nanoTime())

  private def serving[T](body: => T): T = {
    callsUnderWay.incrementAndGet()
    try body
    finally {
      noteHeartbeat()
      callsUnderWay.decrementAndGet()
    }
  }
}

object Bridge {
  private val MostEventsKept = 100000
  @volatile private[mooring] var current: Bridge = _

  /** Found by the agent through Py4J: the bridge of this driver. */
  def instance(): Bridge = current
}
