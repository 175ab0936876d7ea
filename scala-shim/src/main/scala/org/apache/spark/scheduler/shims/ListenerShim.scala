package org.apache.spark.scheduler.shims

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.SparkListener

/** Adds listeners to Spark's listener bus. Called by the driver plugin. */
object ListenerShim {

  /** Gives the listener a queue and a thread of its own, so that a slow listener does not delay it. `addToQueue` is private to Spark. */
  def add(context: SparkContext, listener: SparkListener): Unit = context.listenerBus.addToQueue(listener, "mooring")
}
