package org.apache.spark.shims

import java.util.concurrent.CopyOnWriteArrayList

import scala.jdk.CollectionConverters._

import org.apache.spark.util.{ShutdownHookManager, SignalUtils}

/**
 * Signals of the operating system to this process. The handler is called by a thread of the JVM for signals. Depends on `SignalUtils`
 * and `ShutdownHookManager`; without it a SIGTERM does not drain the application's queries.
 */
object Signals {
  private val handlers = new CopyOnWriteArrayList[() => Boolean] // of SIGTERM

  /** `SignalUtils` can not remove an action: so it gets one for the whole JVM, which does nothing while there is no handler. */
  private lazy val action: Unit = SignalUtils.register("TERM")(handlers.asScala.map(_()).contains(true))

  /**
   * Calls `handle` for each SIGTERM until the result is closed. When `handle` returns false, and after the close, the JVM does what it
   * would have done without this handler.
   */
  def onTerm(handle: () => Boolean): AutoCloseable = {
    handlers.add(handle)
    action
    () => { handlers.removeIf(_ eq handle); () }
  }

  /** Whether this JVM is about to end: its shutdown hooks run. */
  def isShuttingDown: Boolean = ShutdownHookManager.inShutdown()
}
