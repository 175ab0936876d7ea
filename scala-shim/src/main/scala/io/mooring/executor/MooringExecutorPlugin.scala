package io.mooring.executor

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import io.mooring.agent.UsersPython
import io.mooring.common.{FailOpen, Daemon, Location, Metrics, Names, OrdinaryEnd, Log, SettingsTable}
import io.mooring.localstore.{HostStore, HostStores, HostStoreSweep, KeepingTime, StoreWrites}
import io.mooring.reports.ExecutorReports
import io.mooring.restore.Prefetch
import io.mooring.standby.Copies
import io.mooring.warmup.ShuffleWarmup
import org.apache.spark.SparkConf
import org.apache.spark.api.plugin.{ExecutorPlugin, PluginContext}
import org.apache.spark.scheduler.shims.ExecutorShim
import org.apache.spark.shims.{Capability, SparkSelfCheck, WarmupProfile}
import org.apache.spark.sql.execution.streaming.state.shims.{OpenStores, ProviderOfSessions, StreamShims, Undo, WarmUp}

/**
 * The plugin's part in each executor: opens the host's local store, warms the JVM up, reports the executor's location to the driver,
 * and makes the parts that fetch state ahead and keep copies.
 *
 * Spark calls `init` before the executor gets tasks, and `shutdown` at its end. When something fails in `init`, the executor
 * runs without the parts that were not made yet.
 */
private[mooring] final class MooringExecutorPlugin extends ExecutorPlugin {
  private var sweep: Option[HostStoreSweep] = None
  private var versions: Option[VersionWatch] = None
  private var shuffleWarmup: Option[ShuffleWarmup] = None
  @volatile private var isOver = false

  override def init(context: PluginContext, extraConf: JMap[String, String]): Unit = FailOpen.otherwise("executor part", ()) {
    val settings = SettingsTable.read(context.conf().getAll.toMap)
    if (settings.isOn("spark.mooring.enabled")) {
      val isInDriver = ExecutorShim.isInDriver(context.executorID())
      if (!isInDriver) OrdinaryEnd.begins(() => isOver)
      SparkSelfCheck.lines.foreach(line => Log.once(line, line))
      val mostOpen = if (Capability.OpenCopies.isOn) settings.count("spark.mooring.standby.open.stores") else 0
      ExecutorReports.through(Some(context), withOpenCopies = mostOpen > 0)
      val directory = HostStores.directory(settings.text("spark.mooring.local.store.dir"), System.getenv().asScala.get)
      val provider = settings.text(Location.Key)
      val store = HostStore.open(directory, isOnOwnVolume = Location.isVolume(provider))
      HostStores.use(store)
      FailOpen.otherwise("look at the local store", ())(store.foreach(_.sayWhatIsWrong(ExecutorShim.localDirectory(context.conf()))))
      val location = new Location(System.getenv().asScala.get, UsersPython.ask(_, context.conf()),
        volume = store.toRight("the local store can not be used").flatMap(_.volume))
      FailOpen.otherwise("warm-up", ())(warmUp(context.conf()))
      // From now on the plan may place tasks on this executor.
      ExecutorReports.hello(location.of(provider), location.zone(settings.text(Location.ZoneKey)))
      versions = Option.when(settings.isOn("spark.mooring.host.affinity.enabled"))(new VersionWatch)
      val fetchedASecond = settings.bytes("spark.mooring.standby.max.bytes.per.second").getOrElse(Long.MaxValue)
      // The plan gives a new executor the rebind timeout to get its copies. For a sixth of it, 10 s at most, copies are made slowly.
      val throttledForMs = math.min(10000L, settings.milliseconds("spark.mooring.processor.rebind.timeout") / 6)
      Undo.isWanted = settings.copies > 0 && Capability.OpenCopies.isOn
      Copies.use(store.map(new Copies(_, fetchedASecond, mostOpen, throttledForMs)))
      val streams = settings.count("spark.mooring.restore.streams")
      Prefetch.use(store.filter(_ => streams > 0).map(
        new Prefetch(_, streams, settings.bytes("spark.mooring.restore.max.bytes.per.second").getOrElse(Long.MaxValue))))
      KeepingTime.begin()
      StoreWrites.areNoted = extraConf.containsKey(Names.Catalogued)
      // In local mode Spark asks for an executor's gauges before the application has its id, which is in their names.
      for (registry <- if (isInDriver) Metrics.ofDriver else Some(context.metricRegistry())) {
        Metrics.register(registry, "keeping-ms", () => KeepingTime.milliseconds.toDouble)
        Metrics.register(registry, "standby-open-stores", () => OpenStores.count.toDouble)
      }
      sweep = store.map(new HostStoreSweep(_, settings.bytes("spark.mooring.local.store.max.bytes").getOrElse(Long.MaxValue)))
    }
  }

  /**
   * Warms the JVM up in threads of their own. While no query runs, this returns at once. Once queries run, it returns when this
   * executor has loaded and compiled what their tasks use: until then Spark gives the executor no tasks.
   */
  private def warmUp(conf: SparkConf): Unit = if (conf.get(StreamShims.ProviderKey, "") == ProviderOfSessions.name(Names.Provider)) {
    val began = System.nanoTime()
    val store = Daemon.start("mooring-warm-up")(FailOpen.otherwise("warm-up", ())(WarmUp.run(conf, Names.FileManager)))
    @volatile var profile = WarmupProfile.Nothing
    @volatile var codeIsRead = false
    val warmup = Daemon.start("mooring-warm-up-profile")(FailOpen.otherwise("warm-up by a profile", ()) {
      try {
        profile = ExecutorReports.warmupProfile()
        if (profile != WarmupProfile.Nothing) WarmupProfile.asFarAsPossible { codeIsRead = ShuffleWarmup.code() }
        profile.attend(conf)
      } catch { case _: InterruptedException => } // the warm-up takes too long: the first task does the rest
    })
    warmup.join(MooringExecutorPlugin.LongestWarmUpMs)
    val all = if (warmup.isAlive) "Not all of " else ""
    warmup.interrupt()
    if (profile != WarmupProfile.Nothing) {
      store.join(MooringExecutorPlugin.LongestWarmUpMs)
      Log.info(s"$all${profile.classes.size} classes are loaded, ${profile.sources.size} pieces of code compiled${if (codeIsRead) ", a task's code read" else ""}, " +
        s"as the queries that run use them, after ${(System.nanoTime() - began) / 1000000} ms")
      shuffleWarmup = Some(ShuffleWarmup.begin())
    }
  }

  override def shutdown(): Unit = {
    isOver = true
    sweep.foreach(_.stop())
    shuffleWarmup.foreach(_.stop())
    versions.foreach(_.stop())
    Copies.use(None)
    Undo.isWanted = false
    Prefetch.use(None)
    HostStores.use(None)
    ExecutorReports.through(None)
    StoreWrites.areNoted = false
  }
}

private object MooringExecutorPlugin {
  val LongestWarmUpMs = 30000L // most often 3 s; much longer on a busy host
}
