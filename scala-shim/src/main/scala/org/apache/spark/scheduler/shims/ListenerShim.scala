package org.apache.spark.scheduler.shims

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.SparkListener

/** Adds listeners to Spark's listener bus. Called by the driver plugin. */
object ListenerShim {

  /**
   * Gives each class of listeners a queue and a thread of its own, so that a slow listener does not delay another one. Two listeners get
   * an event in any order. `addToQueue` is private to Spark.
   */
  def add(context: SparkContext, listener: SparkListener): Unit =
    context.listenerBus.addToQueue(listener, s"mooring-${listener.getClass.getSimpleName}")
}
