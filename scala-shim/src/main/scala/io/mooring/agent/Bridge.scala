package io.mooring.agent

import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import io.mooring.common.{FailOpen, Daemon, Json, Metrics, Names, Log}
import io.mooring.election.{Leadership, Standing}
import io.mooring.placement.{PlacementTable, Plan}
import org.apache.spark.sql.execution.streaming.state.shims.{Ending, StreamShim, StreamShims}

/** What the agent may have done to the application, besides placing its tasks. */
trait Operations {

  /** A plan names copies of tasks. */
  def copiesAreWanted(): Unit

  /** Ends an executor once no task runs on it, if that is within `waitMs`, else calls `gaveUp`. Does not wait for that. */
  def restart(executor: String, waitMs: Long, gaveUp: () => Unit): Unit

  /**
   * Has a query end as it is said, such as `drain`: its intake stops, what is buffered comes out, and it ends. One that
   * is held since its start reads nothing at all with `zeroInput`. Returns at once.
   */
  def end(query: String, how: Ending, zeroInput: Boolean): Unit

  /** Of these queries, by name or id, or of all (None), a drain is asked for. */
  def drainsAreAsked(of: Seq[Option[String]]): Unit

  /** Notes in their checkpoints that these queries are to be drained, each once some others are. */
  def owe(after: Map[String, Seq[String]]): Unit

  /** An agent begins anew, and is to hear how the copies stand. */
  def agentIsNew(): Unit

  /** Opens a directory on any of Hadoop's file systems, with the credentials of the application. */
  def files(directory: String): DriverFiles
}

/**
 * What passes between the JVM and the agent, as JSON strings (docs/internals.md). The agent calls `hello` once, then
 * `pollEvents` in a loop; each poll is also its heartbeat. Nothing here waits for the agent.
 */
final class Bridge(table: PlacementTable, leadership: Option[Leadership], operations: Operations) {
  private type Event = Map[String, Any]

  /** What one agent leaves for the next one in memory, such as its session with ZooKeeper; nobody else sees it. */
  @volatile private var legacy = ""

  private[mooring] val facts = new Facts

  /** What executors have told of committed state since the last call, at most so much, as a JSON array. */
  def takeFacts(most: Int): String = facts.take(most)

  private val news = new LinkedBlockingQueue[Event](Bridge.MostEventsKept)
  private val restarts = ConcurrentHashMap.newKeySet[String]() // the requests that were heeded
  private val givenUp = ConcurrentHashMap.newKeySet[String]() // of these, where the executor could not be ended
  private val lastPoll = new AtomicLong(System.nanoTime())
  @volatile private var lastPlan = ""
  @volatile private var offered = -1L
  @volatile private var greeted = false
  // What is true now, to be told to an agent that starts later: one event for each living thing.
  private val living = new ConcurrentHashMap[String, Event]()

  /** Tells the agent something. With `about`, it stays true, and is told to every later agent, until `over(about)`. */
  def tell(event: Event, about: Option[String] = None): Unit = {
    val stamped = event + ("at" -> System.currentTimeMillis())
    about.foreach(living.put(_, stamped))
    // Without an agent nothing is queued: the next one starts with `hello`, which needs no news.
    if (greeted && !news.offer(stamped)) greeted = false
  }

  /** Has later agents hear more of what is true: the present one knows it from elsewhere. */
  def amend(about: String, news: (String, Any)): Unit = { living.computeIfPresent(about, (_, event) => event + news); () }

  def over(about: String): Unit = { living.remove(about); () }

  /** Everything that is true now, as a JSON array of events; what was queued before is part of it. */
  def hello(): String = {
    heard()
    greeted = true
    news.clear()
    operations.agentIsNew()
    val order = Seq("ApplicationStarted", "ExecutorRegistered", "CheckpointTaken", "QueryStarting", "QueryPlanned", "BatchBegan")
    val now = living.values().asScala.toSeq.sortBy(e => (order.indexOf(e("event").toString), e("at").asInstanceOf[Long]))
    Json.write(Map("event" -> "PlanInForce", "at" -> System.currentTimeMillis(), "plan" -> lastPlan,
      "offered" -> offered) +: now)
  }

  /** The news as a JSON array; waits up to `timeoutMs` for the first. */
  def pollEvents(timeoutMs: Long): String = {
    if (!greeted) throw new IllegalStateException("news were lost: start anew, with hello")
    heard()
    val events = Option(news.poll(timeoutMs, TimeUnit.MILLISECONDS)).toBuffer
    val rest = new java.util.ArrayList[Event]()
    news.drainTo(rest)
    heard()
    Json.write(events ++ rest.asScala)
  }

  /** Lets executors take up a version of the job model: they ask for the newest one. */
  def offer(version: Long): Unit = offered = version

  /** The version that executors should know. */
  def newest: Long = offered

  /** An executor knows a version. */
  def pickedUp(executor: String, version: Long): Unit =
    tell(Map("event" -> "PlanPickedUp", "executor" -> executor, "version" -> version), about = Some(s"version of $executor"))

  /** Takes a plan over at the next batch edge; false when a newer one was there already. */
  def publish(planJson: String): Boolean = {
    val plan = Plan.parse(planJson)
    val accepted = table.accept(plan)
    if (accepted) lastPlan = planJson
    if (accepted && plan.standbys.nonEmpty) operations.copiesAreWanted()
    accepted
  }

  /**
   * Ends an executor once no task runs on it, if that is within `waitMs`, and has another one come; for one request once. That
   * it was given up is told again: the agent before may have heard it last.
   */
  def restart(request: String, executor: String, waitMs: Long): Unit =
    if (restarts.add(request)) {
      tell(Map("event" -> "ExecutorRestarting", "request" -> request, "executor" -> executor), about = Some(s"restart $request"))
      operations.restart(executor, waitMs, () => {
        over(s"restart $request") // a later agent need not expect its end
        givenUp.add(request)
        tellGivenUp(request, executor)
      })
    } else if (givenUp.contains(request)) tellGivenUp(request, executor)

  private def tellGivenUp(request: String, executor: String): Unit =
    tell(Map("event" -> "RestartGivenUp", "request" -> request, "executor" -> executor))

  /** Has a query end, for however many times it is told; `how` is one of Ending's names. How that goes comes as events. */
  def end(query: String, how: String, zeroInput: Boolean): Unit = operations.end(query, Ending.named(how), zeroInput)

  /** Hears of which queries a drain is asked for: a JSON array of names or ids, in which null is every query. */
  def drainsAsked(json: String): Unit = operations.drainsAreAsked(
    Json.read(json).asScala.toSeq.map(query => Option.when(!query.isNull)(query.asText)))

  /** Notes in their checkpoints that queries are to be drained; `json` is query to those that come before it, all by ids. */
  def owe(json: String): Unit = operations.owe(
    Json.read(json).properties().asScala.map(e => e.getKey -> e.getValue.asScala.map(_.asText).toSeq).toMap)

  /** The user's queries that run. */
  private[mooring] def running: Seq[StreamShim] = StreamShims.running.filterNot(_.reads(Names.StandbySource))

  /** The same as a JSON array, with what their sources and sinks say of themselves. */
  def queries(): String = Json.write(running.map(query => Map("query" -> query.id, "run" -> query.runId, "name" -> query.name,
    "reads" -> query.sourcesAsDescribed, "writes" -> Seq(query.sinkAsDescribed), "ready" -> query.hasItsSources)))

  /** Hears what the agent knows of the election among the drivers of this job; false when this driver has lost it. */
  def lead(json: String): Boolean = leadership.forall { election =>
    val standing = Standing.parse(json)
    val lostBefore = election.isLost
    val takesPart = election.update(standing)
    if (!takesPart && !lostBefore) stopQueries(standing.leader)
    takesPart
  }

  /** Each beside the others: one that does not end must not keep the next from being stopped. */
  private def stopQueries(leader: String): Unit = {
    Log.warn(s"another driver of this job, $leader, leads since: this one stops its queries before they commit")
    StreamShims.running.foreach { query =>
      Daemon.start("mooring-leadership-lost")(FailOpen.otherwise("stopping of queries", ())(query.stop()))
    }
  }

  /** Opens a directory on any of Hadoop's file systems, with the credentials of the application. */
  def files(directory: String): DriverFiles = operations.files(directory)

  def leave(text: String): Unit = legacy = text
  def inherit(): String = legacy

  /** A line of the agent's for the driver's log. */
  def say(message: String): Unit = Log.warn(message)

  /** The same of what goes wrong around it, as with a store: no news while the application ends. */
  def sayOfTrouble(message: String): Unit = Log.trouble(message)

  /** A line for those who want to see that it works. */
  def inform(message: String): Unit = Log.info(message)

  /** Puts the agent's gauges into Spark's metrics, all that it has; `json` is one object of name to number. */
  def metrics(json: String): Unit =
    Metrics.setAgents(Json.read(json).properties().asScala.map(entry => entry.getKey -> entry.getValue.asDouble()).toMap)

  /** Whether the agent that was launched last has come so far as to say hello. */
  def isGreeted: Boolean = greeted

  private[agent] def agentLaunched(): Unit = {
    greeted = false
    heard()
  }

  def secondsSinceHeard: Long = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - lastPoll.get)
  def heard(): Unit = lastPoll.set(System.nanoTime())
}

object Bridge {
  private val MostEventsKept = 100000
  @volatile private[mooring] var current: Bridge = _

  /** Found by the agent through Py4J: the bridge of this driver. */
  def instance(): Bridge = current
}
