package io.mooring

import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}

/** The one switch: `spark.plugins=io.mooring.MooringPlugin`. */
final class MooringPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new MooringDriverPlugin
  override def executorPlugin(): ExecutorPlugin = new MooringExecutorPlugin
}
