package io.mooring

import io.mooring.common.FailOpen
import io.mooring.driver.Driver
import org.apache.spark.scheduler.SparkListener

/**
 * Tells `ExecutorRequests` that Spark makes its listeners. Spark makes this one by its name, in the thread that makes the SparkContext:
 * after the scheduler has started, and before it waits for executors. It listens to nothing. A failure is logged, and Spark goes on.
 */
final class AllocationListener extends SparkListener {
  FailOpen.otherwise("request of executors on hosts", ())(Driver.current.foreach(_.executorRequests.listenersStart()))
}
