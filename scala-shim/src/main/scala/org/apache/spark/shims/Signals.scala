package org.apache.spark.shims

import org.apache.spark.util.{ShutdownHookManager, SignalUtils}

/** What the operating system asks of this process. */
object Signals {

  /** `heard` is called for each SIGTERM; where it says false, what would have been done without us is done. */
  def onTerm(heard: () => Boolean): Unit = SignalUtils.register("TERM")(heard())

  /** Whether this JVM is about to end: its shutdown hooks run. */
  def isShuttingDown: Boolean = ShutdownHookManager.inShutdown()
}
