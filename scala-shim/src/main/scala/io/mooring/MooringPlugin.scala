package io.mooring

import io.mooring.driver.MooringDriverPlugin
import io.mooring.executor.MooringExecutorPlugin
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, SparkPlugin}

/** The class that switches Mooring on: `spark.plugins=io.mooring.MooringPlugin`. Spark makes it by reflection, in the driver and in each executor. */
final class MooringPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new MooringDriverPlugin
  override def executorPlugin(): ExecutorPlugin = new MooringExecutorPlugin
}
