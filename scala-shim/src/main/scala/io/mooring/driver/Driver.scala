package io.mooring.driver

import io.mooring.agent.{AgentProcess, Bridge, DriverFiles, Operations, StartWaitBudget}
import io.mooring.allocation.{ExecutorRequests, HostsWanted}
import io.mooring.common.{FailOpen, Build, Daemon, Names, OrdinaryEnd, Log, SettingsTable}
import io.mooring.drain.{DrainOnTerm, Drains}
import io.mooring.election.{LeaderOnlyWrites, Leadership}
import io.mooring.placement.{PlacementService, PlacementTable}
import io.mooring.restore.Prefetches
import io.mooring.standby.{Departures, Liveness, Standbys, StuckTasks}
import io.mooring.warmup.WarmupProfiles
import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.scheduler.shims.{AllocationShim, ExecutorShim, ListenerShim}
import org.apache.spark.sql.execution.streaming.state.shims.{Ending, OperatorFacts}

/**
 * Makes and holds the parts of Mooring that run in the driver, from the plugin's `init` to its `shutdown`. The thread that
 * makes the SparkContext creates it; any thread reads it through `Driver.current`.
 *
 * Events: DriverStarting and ApplicationStarted.
 */
final class Driver(val conf: SparkConf, settings: SettingsTable, context: SparkContext) {
  private val placing = settings.isOn("spark.mooring.host.affinity.enabled")

  /** None where no other driver can share the metadata store. */
  val leadership: Option[Leadership] = Option.when(Leadership.isShared(settings.text("spark.mooring.metadata")))(
    new Leadership(Driver.FirstStandingMs, Driver.RenewedStandingMs, Driver.ContestedMs))

  val table = new PlacementTable
  val bridge = new Bridge(table, leadership, operations)
  private val executors = new ExecutorRegistry(bridge)
  private val withheld = Option.when(placing)(new WithholdingWatch(context, table, bridge))
  private val warmups = new WarmupProfiles

  /** Made also where no standbys are wanted: a task that is to move gets a copy at its destination first. */
  val standbys: Option[Standbys] = Option.when(placing)(new Standbys(table, bridge))
  private val hasStandbys = placing && settings.copies > 0
  private val stuckTasks = Option.when(hasStandbys)(new StuckTasks(context))
  private val liveness = Option.when(hasStandbys)(new Liveness(settings.milliseconds("spark.mooring.liveness.timeout"), departures))
  val reports = new ExecutorReportHandler(context, bridge, table, standbys, liveness, executors, warmups, () => isAgentExpected)

  /** Whether committed state is listed in Delta tables. */
  val isCatalogued: Boolean = placing && Catalogue.isOn(settings)

  private val startWait = new StartWaitBudget(settings.milliseconds("spark.mooring.host.affinity.wait"), () => isAgentExpected)
  private val prefetches = Option.when(placing && settings.count("spark.mooring.restore.streams") > 0)(new Prefetches(context, table))
  // In local mode all tasks run in this JVM: no plan can place them elsewhere.
  val queries = new QueryWatch(bridge, table, standbys, prefetches, startWait, waitsForPlan = placing && !context.isLocal,
    executorsComeForTasks = AllocationShim.isDynamic(conf))

  val drains = new Drains(bridge, () => context.applicationId, settings.text("spark.mooring.resume.drained").getOrElse("false"),
    settings.isOn("spark.mooring.drain.on.start"), startWait)

  val executorRequests = new ExecutorRequests(context, conf, settings)
  private val cluster = new ClusterWatch(context, bridge, table, queries, standbys, hasStandbys, executors, reports, warmups, withheld)
  OrdinaryEnd.begins(() => context.isStopped)
  ListenerShim.add(context, cluster)
  stuckTasks.foreach(ListenerShim.add(context, _))
  Bridge.current = bridge
  private val agent = new AgentProcess(conf, bridge,
    settings.text("spark.mooring.agent.python"), settings.milliseconds("spark.mooring.agent.liveness.timeout") / 1000)

  private val drainOnTerm = Option.when(settings.isOn("spark.mooring.drain.on.sigterm"))(
    new DrainOnTerm(bridge, () => isAgentExpected, () => bridge.running.size, () => drains.requestsFinished))

  /**
   * Waits until this driver leads, if it takes part in an election. No executor is requested before. Returns what is wrong with
   * a setting, if the agent has found a fault; the application must not start then.
   */
  def awaitTurn(): Option[String] = leadership.flatMap { election =>
    bridge.tell(Map("event" -> "DriverStarting", "name" -> conf.get("spark.app.name", ""),
      "driver-host" -> conf.get("spark.driver.host", ""), "settings" -> mooringSettings), about = Some("driver"))
    Option(election.awaitTurn(isAgentExpected))
  }

  /** Whether an agent runs, or is about to be started. */
  def isAgentExpected: Boolean = agent.isExpected

  private object placementService extends PlacementService {
    override def table: PlacementTable = Driver.this.table
    override def planned(query: String, operators: Seq[OperatorFacts]): Unit = queries.planned(query, operators)
    override def isRepeated(operator: OperatorFacts): Boolean = queries.isRepeated(operator)

    /** Asks Spark which executors get no tasks, as the event that says so may have been lost. */
    override def batchIsPlaced(): Unit = cluster.refreshWithheld()

    override def computes(query: String, batch: Long): Unit = queries.computes(query, batch)
    override def drainStateOf(run: String, batch: Long): Int = drains.stateOf(run, batch)
  }

  /** How long Spark lets a task wait for the executor that the task prefers, and then for another executor on the same host. */
  private def localityWaitMs = {
    val usual = conf.get("spark.locality.wait", "3s")
    Seq("process", "node").map(level => conf.getTimeAsMs(s"spark.locality.wait.$level", usual)).sum
  }

  private def mooringSettings = conf.getAll.toMap.filter(_._1.startsWith(Names.Prefix))

  def applicationStarted(id: String): Unit = {
    cluster.watchLosses()
    bridge.tell(Map("event" -> "ApplicationStarted", "application" -> id,
      "attempt" -> context.applicationAttemptId.getOrElse(""), "started-ms" -> context.startTime, "master" -> context.master,
      "name" -> conf.get("spark.app.name", ""), "driver-host" -> conf.get("spark.driver.host", ""),
      "checkpoint-location" -> conf.get("spark.sql.streaming.checkpointLocation", ""),
      "spark" -> context.version, "built-for" -> Build.spark, "java" -> Runtime.version().feature(),
      "locality-wait" -> localityWaitMs, "catalogued" -> isCatalogued, "settings" -> mooringSettings,
      "executors" -> executorRequests.total, "hosts-asked" -> executorRequests.hostsAtStart), about = Some("application"))
  }

  /** What the agent can ask this driver to do. */
  private object operations extends Operations {
    override def beginCopies(): Unit = standbys.foreach(_.begin())

    override def restart(executor: String, waitMs: Long, onGivenUp: () => Unit): Unit = {
      Daemon.start(s"mooring-restart-$executor") {
        FailOpen.otherwise("restart of an executor", ())(ExecutorShim.restartWhenIdle(context, executor, waitMs))
        FailOpen.otherwise("end of a restart", ()) {
          if (!context.isStopped && !ExecutorShim.isLeaving(context, executor)) onGivenUp() // the agent may ask again
        }
      }
      ()
    }

    override def wantHosts(wanted: HostsWanted): Unit = executorRequests.want(wanted)

    override def end(query: String, how: Ending, zeroInput: Boolean): Unit =
      FailOpen.otherwise(s"drain of $query", ())(drains.begin(query, how, zeroInput))

    override def requestDrains(queries: Seq[Option[String]]): Unit = drains.request(queries)

    override def noteDrains(after: Map[String, Seq[String]]): Unit = FailOpen.otherwise("note what is to be drained", ())(drains.noteRequested(after))

    override def tellNewAgent(): Unit = standbys.foreach(_.reportAgain())

    // Not SparkContext.getOrCreate: until this context is complete, that call makes a second one.
    override def files(directory: String): DriverFiles = new DriverFiles(directory, context.hadoopConfiguration)
  }

  /** When an executor leaves, has left, or is silent, its waiting tasks are redirected to where their copies are. */
  private object departures extends Departures {
    override def isLeaving(executor: String): Boolean = ExecutorShim.isLeaving(context, executor)

    override def onLeaving(executor: String): Unit = if (table.isAlive(executor)) {
      table.executorLeaves(executor)
      cluster.redirect()
      executors.removed(executor, "it is to be removed")
    }

    override def afterDepartures(): Unit = cluster.redirectLateTasks()

    override def onSilence(executor: String, forMs: Long): Unit = {
      Log.warn(s"executor $executor has been silent for $forMs ms: it counts as lost")
      table.executorLost(executor)
      cluster.redirect() // before Spark notes the loss, and starts the waiting tasks wherever a slot is free
      stuckTasks.foreach(_.noteSilence(executor, forMs))
      ExecutorShim.killAndReplace(context, executor, s"silent for $forMs ms (spark.mooring.liveness.timeout)")
      // Spark then removes it, and `ClusterWatch.onExecutorRemoved` reports that to the agent.
    }
  }

  /** Each step is tried, whatever became of the steps before it: an agent that goes on would keep its election. */
  def stop(): Unit = {
    val steps = Seq[() => Unit](
      () => leadership.foreach(_.end()), // before the agent stands down
      () => drainOnTerm.foreach(_.stop()), () => liveness.foreach(_.stop()), () => stuckTasks.foreach(_.stop()),
      () => standbys.foreach(_.stop()), () => executorRequests.stop(), () => agent.stop())
    val wasInterrupted = steps.map { step =>
      try {
        FailOpen.otherwise("end of the application", ())(step())
        false
      } catch { case _: InterruptedException => true }
    }.contains(true)
    if (wasInterrupted) Thread.currentThread.interrupt()
  }
}

object Driver {
  private val FirstStandingMs = 30000L
  private val RenewedStandingMs = 10000L
  private val ContestedMs = 60000L // an agent that hangs is killed after half of that, and the next agent knows who leads

  @volatile private var running: Option[Driver] = None

  /** The driver part of this JVM's application; None in executors, and where Mooring is switched off. */
  def current: Option[Driver] = running

  private[driver] def set(driver: Option[Driver]): Unit = {
    LeaderOnlyWrites.use(driver.flatMap(_.leadership), () => driver.exists(_.isAgentExpected))
    PlacementService.use(driver.map(_.placementService))
    running = driver
  }
}
