package io.mooring

import io.mooring.driver.MooringDriverPlugin
import io.mooring.executor.MooringExecutorPlugin
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}

/** The one switch: `spark.plugins=io.mooring.MooringPlugin`. */
final class MooringPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new MooringDriverPlugin
  override def executorPlugin(): ExecutorPlugin = new MooringExecutorPlugin
}
