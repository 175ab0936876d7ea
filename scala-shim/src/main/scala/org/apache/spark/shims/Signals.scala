package org.apache.spark.shims

import org.apache.spark.util.{ShutdownHookManager, SignalUtils}

/**
 * Signals of the operating system to this process. The handler is called by a thread of the JVM for signals. Depends on `SignalUtils`
 * and `ShutdownHookManager`; without it a SIGTERM does not drain the application's queries.
 */
object Signals {

  /** Calls `handle` for each SIGTERM. When `handle` returns false, the JVM does what it would have done without this handler. */
  def onTerm(handle: () => Boolean): Unit = SignalUtils.register("TERM")(handle())

  /** Whether this JVM is about to end: its shutdown hooks run. */
  def isShuttingDown: Boolean = ShutdownHookManager.inShutdown()
}
