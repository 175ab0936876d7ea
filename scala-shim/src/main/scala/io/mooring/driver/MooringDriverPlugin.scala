package io.mooring.driver

import java.util.{Collections, Map => JMap}

import scala.jdk.CollectionConverters._

import io.mooring.common.{FailOpen, Build, Metrics, Names, Log, SettingsTable}
import io.mooring.localstore.HostStores
import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, PluginContext}
import org.apache.spark.shims.SparkSelfCheck

/**
 * The plugin's part in the driver: checks the settings, starts the Driver, and passes on what executors report.
 *
 * Spark calls `init` in the thread that makes the SparkContext, before any executor is asked for, and `receive` in one RPC thread.
 * A wrong setting stops the application. When anything else fails in `init`, the application runs without Mooring.
 */
private[mooring] final class MooringDriverPlugin extends DriverPlugin {

  override def init(context: SparkContext, pluginContext: PluginContext): JMap[String, String] = {
    val conf = pluginContext.conf() // the context's own conf, not a copy
    val settings = SettingsTable.read(conf.getAll.toMap)
    settings.check()
    val refusal = if (!settings.isOn("spark.mooring.enabled")) None else FailOpen.otherwise[Option[String]]("driver part", None) {
      SparkSelfCheck.lines.foreach(line => Log.once(line, line))
      val driver = new Driver(conf, settings, context)
      Driver.set(Some(driver))
      try {
        ConfOverrides.amend(conf)
        ConfOverrides.retain(conf, settings.count("spark.mooring.checkpoint.retain.batches"))
        if (settings.copies > 0) ConfOverrides.retryFetchesSooner(conf)
        sayWhatRuns(settings, context)
        Metrics.register(pluginContext.metricRegistry())
        val refusal = driver.awaitTurn()
        if (refusal.isEmpty) driver.executorRequests.begin() // only a driver that leads asks for executors
        refusal
      } catch {
        case e: Throwable => // Mooring is stopped as a whole. After an interrupt Spark gives up the context, and does not call shutdown
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
    Log.info(s"version ${Build.version} for Spark ${Build.spark} runs in Spark ${context.version}; each host keeps state in $store, or where " +
      s"its ${Names.LocalStoreVariable} says; where the records are is said when the first query with state starts")
  }

  override def registerMetrics(applicationId: String, pluginContext: PluginContext): Unit =
    Driver.current.foreach(_.applicationStarted(applicationId))

  override def receive(message: Object): Object = message match {
    case report: String => FailOpen.otherwise[Object]("handling of a report", null)(Driver.current.map(_.reports.receive(report)).orNull)
    case other =>
      Log.once("unknown-message", s"an executor sent ${other.getClass.getName}, which is not ours: ignored")
      null
  }

  override def shutdown(): Unit = {
    try Driver.current.foreach(_.stop())
    finally Driver.set(None)
  }
}
