package org.apache.spark.scheduler.shims

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.SparkListener

object ListenerShim {

  /** Gives the listener a queue of its own (private[spark]), so that no slow listener delays the news of a loss. */
  def add(context: SparkContext, listener: SparkListener): Unit = context.listenerBus.addToQueue(listener, "mooring")
}
