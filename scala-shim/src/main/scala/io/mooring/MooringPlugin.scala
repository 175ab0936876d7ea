package io.mooring

import java.util.{Collections, Map => JMap}

import io.mooring.driver.MooringDriverPlugin
import io.mooring.executor.MooringExecutorPlugin
import org.apache.spark.{SparkContext, TaskFailedReason}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}

/**
 * The class that switches Mooring on: `spark.plugins=io.mooring.MooringPlugin`. Spark makes it by reflection, in the driver and in
 * each executor. Both parts load other classes of Mooring only where the Spark that runs fits this jar (`SparkOfJar`).
 */
final class MooringPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverPartIfItFits
  override def executorPlugin(): ExecutorPlugin = new ExecutorPartIfItFits
}

/** The driver's part, where it fits the Spark that runs; else nothing. Spark calls `init` first. */
private final class DriverPartIfItFits extends DriverPlugin {
  @volatile private var part: DriverPlugin = _ // null while there is none

  override def init(context: SparkContext, pluginContext: PluginContext): JMap[String, String] =
    if (SparkOfJar.fits(pluginContext.conf())) {
      part = new MooringDriverPlugin
      part.init(context, pluginContext)
    } else Collections.emptyMap()

  override def registerMetrics(applicationId: String, pluginContext: PluginContext): Unit =
    if (part != null) part.registerMetrics(applicationId, pluginContext)

  override def receive(message: Object): Object = if (part == null) null else part.receive(message)
  override def shutdown(): Unit = if (part != null) part.shutdown()
}

/** An executor's part, where it fits the Spark that runs; else nothing. Spark calls `init` first. */
private final class ExecutorPartIfItFits extends ExecutorPlugin {
  @volatile private var part: ExecutorPlugin = _ // null while there is none

  override def init(context: PluginContext, extraConf: JMap[String, String]): Unit =
    if (SparkOfJar.fits(context.conf())) {
      part = new MooringExecutorPlugin
      part.init(context, extraConf)
    }

  override def shutdown(): Unit = if (part != null) part.shutdown()
  override def onTaskStart(): Unit = if (part != null) part.onTaskStart()
  override def onTaskSucceeded(): Unit = if (part != null) part.onTaskSucceeded()
  override def onTaskFailed(failureReason: TaskFailedReason): Unit = if (part != null) part.onTaskFailed(failureReason)
}
