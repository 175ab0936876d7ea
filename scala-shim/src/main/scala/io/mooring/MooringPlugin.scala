package io.mooring

import java.util.{Collections, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.sql.execution.streaming.state.shims.{Ending, ExecutorDoor, ListenerDoor, OpenStores, Rehearsal, StreamDoors, Undo, WarmUp}

/** The one switch: `spark.plugins=io.mooring.MooringPlugin`. */
final class MooringPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new MooringDriverPlugin
  override def executorPlugin(): ExecutorPlugin = new MooringExecutorPlugin
}

/** What runs in the driver while the application runs. */
final class Driver(val conf: SparkConf, settings: SettingsTable, context: SparkContext) {
  private val placing = settings.isOn("spark.mooring.host.affinity.enabled")

  /** None where the metadata store is this driver's alone. */
  val leadership: Option[Leadership] = Option.when(Leadership.isShared(settings.text("spark.mooring.metadata")))(
    new Leadership(Driver.FirstWordMs, Driver.RenewedWordMs, Driver.ContestedMs))

  val table = new PlacementTable
  val bridge = new Bridge(table, leadership, operations)
  private val census = new Census(bridge)
  private val withheld = Option.when(placing)(new WithheldOffers(context, table, bridge))
  private val rehearsals = new Rehearsals

  /** Where every task is kept once, copies are made of those that are to move. */
  val standbys: Option[Standbys] = Option.when(placing)(new Standbys(table, bridge))
  private val takesOver = placing && settings.copies > 0
  private val stuckTasks = Option.when(takesOver)(new StuckTasks(context))
  private val liveness = Option.when(takesOver)(new Liveness(settings.milliseconds("spark.mooring.liveness.timeout"), departures))
  val reports = new ReportDesk(context, bridge, table, standbys, liveness, census, rehearsals, () => mayBeTold)

  /** Whether committed state is listed in Delta tables. */
  val isCatalogued: Boolean = placing && Catalogue.isOn(settings)

  private val patience = new Patience(settings.milliseconds("spark.mooring.host.affinity.wait"), () => mayBeTold)
  private val prefetches = Option.when(placing && settings.count("spark.mooring.restore.streams") > 0)(new Prefetches(context, table))
  // In local mode all tasks run in this JVM: no plan can place them elsewhere.
  val queries = new QueryWatch(bridge, table, standbys, prefetches, patience, waitsForPlan = placing && !context.isLocal)

  val drains = new Drains(bridge, () => context.applicationId, settings.text("spark.mooring.resume.drained").getOrElse("false"),
    settings.isOn("spark.mooring.drain.on.start"), patience)

  private val cluster = new ClusterWatch(context, bridge, table, queries, standbys, takesOver, census, reports, rehearsals, withheld)
  OrdinaryEnd.begins(() => context.isStopped)
  ListenerDoor.add(context, cluster)
  stuckTasks.foreach(ListenerDoor.add(context, _))
  Bridge.current = bridge
  private val agent = new AgentProcess(conf, bridge,
    settings.text("spark.mooring.agent.python"), settings.milliseconds("spark.mooring.agent.liveness.timeout") / 1000)

  if (settings.isOn("spark.mooring.drain.on.sigterm")) new DrainOnTerm(bridge, () => mayBeTold, () => bridge.running.size, () => drains.timesOver)

  /** A standby waits here, before any executor is asked for. The answer is what is wrong with a setting, if anything. */
  def awaitTurn(): Option[String] = leadership.flatMap { election =>
    bridge.tell(Map("event" -> "DriverStarting", "name" -> conf.get("spark.app.name", ""),
      "driver-host" -> conf.get("spark.driver.host", ""), "settings" -> mooringSettings), about = Some("driver"))
    Option(election.awaitTurn(mayBeTold))
  }

  /** Whether an agent is there, or comes, to tell of the election. */
  def mayBeTold: Boolean = agent.isComing

  /** A batch is about to be run: which executors get no tasks is asked anew, as an event of it may have been lost. */
  def batchIsPlaced(): Unit = cluster.lookAtOffers()

  /** For how long a task waits for the executor that it prefers, and then for another one of its host. */
  private def localityWaitMs = {
    val usual = conf.get("spark.locality.wait", "3s")
    Seq("process", "node").map(level => conf.getTimeAsMs(s"spark.locality.wait.$level", usual)).sum
  }

  private def mooringSettings = conf.getAll.toMap.filter(_._1.startsWith(Names.Prefix))

  def applicationStarted(id: String): Unit = {
    cluster.watchLosses()
    bridge.tell(Map("event" -> "ApplicationStarted", "application" -> id,
      "attempt" -> context.applicationAttemptId.getOrElse(""),
      "name" -> conf.get("spark.app.name", ""), "driver-host" -> conf.get("spark.driver.host", ""),
      "checkpoint-location" -> conf.get("spark.sql.streaming.checkpointLocation", ""),
      "spark" -> context.version, "built-for" -> Build.spark, "java" -> Runtime.version().feature(),
      "locality-wait" -> localityWaitMs, "catalogued" -> isCatalogued, "settings" -> mooringSettings), about = Some("application"))
  }

  private object operations extends Operations {
    override def copiesAreWanted(): Unit = standbys.foreach(_.begin())

    override def restart(executor: String, waitMs: Long, gaveUp: () => Unit): Unit = {
      Daemon.start(s"mooring-restart-$executor") {
        Aside.otherwise("restart of an executor", ())(ExecutorDoor.restartWhenIdle(context, executor, waitMs))
        Aside.otherwise("end of a restart", ()) {
          if (!context.isStopped && !ExecutorDoor.isLeaving(context, executor)) gaveUp() // the next attempt begins it anew
        }
      }
      ()
    }

    override def end(query: String, how: Ending, zeroInput: Boolean): Unit =
      Aside.otherwise(s"drain of $query", ())(drains.begin(query, how, zeroInput))

    override def drainsAreAsked(of: Seq[Option[String]]): Unit = drains.asked(of)

    override def owe(after: Map[String, Seq[String]]): Unit = Aside.otherwise("note what is to be drained", ())(drains.owe(after))

    override def agentIsNew(): Unit = {
      standbys.foreach(_.tellAgain())
      bridge.facts.again()
    }
  }

  /** The tasks of an executor that goes, or is gone, run where their copies are. */
  private object departures extends Departures {
    override def isLeaving(executor: String): Boolean = ExecutorDoor.isLeaving(context, executor)

    override def leaves(executor: String): Unit = if (table.isAlive(executor)) {
      table.executorLeaves(executor)
      cluster.redirect()
      census.removed(executor, "it is to be removed")
    }

    override def haveLeft(): Unit = cluster.redirectWhatCameLate()

    override def isSilent(executor: String, forMs: Long): Unit = {
      Say.warn(s"executor $executor has been silent for $forMs ms: it counts as lost")
      table.executorLost(executor)
      cluster.redirect() // before Spark knows: it would start what waits wherever a slot is free
      stuckTasks.foreach(_.isSilent(executor, forMs))
      ExecutorDoor.giveUp(context, executor, s"silent for $forMs ms (spark.mooring.liveness.timeout)")
    }
  }

  def stop(): Unit = {
    liveness.foreach(_.stop())
    stuckTasks.foreach(_.stop())
    standbys.foreach(_.stop())
    agent.stop()
  }
}

object Driver {
  private val FirstWordMs = 30000L
  private val RenewedWordMs = 10000L
  private val ContestedMs = 60000L // an agent that hangs is killed after half of that, and the next one knows

  @volatile private var running: Option[Driver] = None

  /** The driver part of this JVM's application; None in executors, and where Mooring is switched off. */
  def current: Option[Driver] = running

  private[mooring] def set(driver: Option[Driver]): Unit = {
    lost = running.flatMap(_.leadership).filter(_.isLost)
    running = driver
  }

  // A driver that has lost may end its application while a last batch is under way.
  @volatile private var lost: Option[Leadership] = None

  /** Before an entry of a log of the checkpoint, or of a sink, is written: throws when another driver leads. */
  def checkLeads(what: String): Unit =
    running.flatMap(_.leadership).orElse(lost).foreach(_.check(what)(running.exists(_.mayBeTold)))
}

private final class MooringDriverPlugin extends DriverPlugin {

  override def init(context: SparkContext, pluginContext: PluginContext): JMap[String, String] = {
    val conf = pluginContext.conf() // the very conf of the context, not a copy
    val settings = SettingsTable.read(conf.getAll.toMap)
    settings.check()
    val refusal = if (!settings.isOn("spark.mooring.enabled")) None else Aside.otherwise[Option[String]]("driver part", None) {
      val driver = new Driver(conf, settings, context)
      Driver.set(Some(driver))
      TakeOver.amend(conf)
      TakeOver.retain(conf, settings.count("spark.mooring.checkpoint.retain.batches"))
      if (settings.copies > 0) TakeOver.askSooner(conf)
      sayWhatRuns(settings, context)
      Metrics.register(pluginContext.metricRegistry())
      try driver.awaitTurn()
      catch {
        case e: InterruptedException => // who makes the context gives up; it will not call shutdown
          shutdown()
          throw e
      }
    }
    for (reason <- refusal) {
      shutdown()
      throw new IllegalArgumentException(reason)
    }
    if (Driver.current.exists(_.isCatalogued)) Collections.singletonMap(Names.Catalogued, "true") else Collections.emptyMap()
  }

  private def sayWhatRuns(settings: SettingsTable, context: SparkContext): Unit = {
    val store = HostStores.directory(settings.text("spark.mooring.local.store.dir"), System.getenv().asScala.get)
    Say.info(s"version ${Build.version} for Spark ${Build.spark} runs in Spark ${context.version}; each host keeps state in $store, or where " +
      s"its ${Names.LocalStoreVariable} says; where the records are is said when the first query with state starts")
  }

  override def registerMetrics(applicationId: String, pluginContext: PluginContext): Unit =
    Driver.current.foreach(_.applicationStarted(applicationId))

  override def receive(message: Object): Object = message match {
    case report: String => Aside.otherwise[Object]("report desk", null)(Driver.current.map(_.reports.receive(report)).orNull)
    case other =>
      Say.once("unknown-message", s"an executor sent ${other.getClass.getName}, which is not ours: ignored")
      null
  }

  override def shutdown(): Unit = {
    Driver.current.foreach(_.stop())
    Driver.set(None)
  }
}

private final class MooringExecutorPlugin extends ExecutorPlugin {
  private var sweep: Option[HostStoreSweep] = None
  private var versions: Option[VersionWatch] = None
  private var firstReads: Option[FirstReads] = None
  @volatile private var isOver = false

  override def init(context: PluginContext, extraConf: JMap[String, String]): Unit = Aside.otherwise("executor part", ()) {
    val settings = SettingsTable.read(context.conf().getAll.toMap)
    if (settings.isOn("spark.mooring.enabled")) {
      val isInDriver = ExecutorDoor.isInDriver(context.executorID())
      if (!isInDriver) OrdinaryEnd.begins(() => isOver)
      val mostOpen = settings.count("spark.mooring.standby.open.stores")
      ExecutorReports.through(Some(context), withOpenCopies = mostOpen > 0)
      val directory = HostStores.directory(settings.text("spark.mooring.local.store.dir"), System.getenv().asScala.get)
      val store = HostStore.open(directory)
      HostStores.use(store)
      Aside.otherwise("look at the local store", ())(store.foreach(_.sayWhatIsWrong(ExecutorDoor.localDirectory(context.conf()))))
      val location = new Location(System.getenv().asScala.get, UsersPython.ask(_, context.conf()))
      Aside.otherwise("warm-up", ())(warmUp(context.conf()))
      // From now on the plan counts on this executor.
      ExecutorReports.hello(location.of(settings.text(Location.Key)), location.zone(settings.text(Location.ZoneKey)))
      versions = Option.when(settings.isOn("spark.mooring.host.affinity.enabled"))(new VersionWatch)
      val fetchedASecond = settings.bytes("spark.mooring.standby.max.bytes.per.second").getOrElse(Long.MaxValue)
      // A newcomer has that time to warm up; its copies leave most of it to what they have to do.
      val unhurriedMs = math.min(10000L, settings.milliseconds("spark.mooring.processor.rebind.timeout") / 6)
      Undo.isWanted = settings.copies > 0
      Copies.use(store.map(new Copies(_, fetchedASecond, mostOpen, unhurriedMs)))
      val streams = settings.count("spark.mooring.restore.streams")
      Prefetch.use(store.filter(_ => streams > 0).map(
        new Prefetch(_, streams, settings.bytes("spark.mooring.restore.max.bytes.per.second").getOrElse(Long.MaxValue))))
      KeepingTime.begin()
      StoreWrites.areTold = extraConf.containsKey(Names.Catalogued)
      // In local mode Spark asks for an executor's gauges before the application has its id, which is in their names.
      for (registry <- if (isInDriver) Metrics.ofDriver else Some(context.metricRegistry())) {
        Metrics.register(registry, "keeping-ms", () => KeepingTime.milliseconds.toDouble)
        Metrics.register(registry, "standby-open-stores", () => OpenStores.count.toDouble)
      }
      sweep = store.map(new HostStoreSweep(_, settings.bytes("spark.mooring.local.store.max.bytes").getOrElse(Long.MaxValue)))
    }
  }

  /**
   * On threads of their own, which end by themselves. Where the application begins the executor is ready for tasks
   * meanwhile; where queries run already Spark gives it none before this returns, and others have them.
   */
  private def warmUp(conf: SparkConf): Unit = if (conf.get(StreamDoors.ProviderKey, "") == Names.Provider) {
    val began = System.nanoTime()
    val store = Daemon.start("mooring-warm-up")(Aside.otherwise("warm-up", ())(WarmUp.run(conf, Names.FileManager)))
    @volatile var rehearsed = Rehearsal.Nothing
    @volatile var codeIsRead = false
    val rehearsal = Daemon.start("mooring-rehearsal")(Aside.otherwise("rehearsal", ()) {
      try {
        rehearsed = ExecutorReports.rehearsal()
        if (rehearsed != Rehearsal.Nothing) Rehearsal.asFarAsPossible { codeIsRead = FirstReads.code() }
        rehearsed.attend(conf)
      } catch { case _: InterruptedException => } // it takes too long: what is missing comes with the first task
    })
    rehearsal.join(MooringExecutorPlugin.LongestWarmUpMs)
    val all = if (rehearsal.isAlive) "Not all of " else ""
    rehearsal.interrupt()
    if (rehearsed != Rehearsal.Nothing) {
      store.join(MooringExecutorPlugin.LongestWarmUpMs)
      Say.info(s"$all${rehearsed.classes.size} classes are loaded, ${rehearsed.sources.size} pieces of code compiled${if (codeIsRead) ", a task's code read" else ""}, " +
        s"as the queries that run use them, after ${(System.nanoTime() - began) / 1000000} ms")
      firstReads = Some(FirstReads.begin())
    }
  }

  override def shutdown(): Unit = {
    isOver = true
    sweep.foreach(_.stop())
    firstReads.foreach(_.stop())
    versions.foreach(_.stop())
    Copies.use(None)
    Undo.isWanted = false
    Prefetch.use(None)
    HostStores.use(None)
    ExecutorReports.through(None)
    StoreWrites.areTold = false
  }
}

private object MooringExecutorPlugin {
  val LongestWarmUpMs = 30000L // some 3 s as a rule; on a host that has little to spare it must not be cut off
}

/** The last resort: whatever part of Mooring fails stays out of the way, and says so once. */
object Aside {
  def otherwise[T](part: String, instead: => T)(body: => T): T = forAWhile(part, instead, isOver = false)(body)

  /** The same of what is needed for a while only, as long as a query runs: a failure after that is none. */
  def forAWhile[T](part: String, instead: => T, isOver: => Boolean)(body: => T): T =
    try body
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // a missing class or library is no less our own fault
        Say.failed(s"aside-$part", e, isOver)(s"its $part failed ($e): Spark goes on without it")
        instead
    }
}
