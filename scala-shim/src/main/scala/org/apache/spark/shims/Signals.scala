package org.apache.spark.shims

import java.util.concurrent.CopyOnWriteArrayList

import scala.jdk.CollectionConverters._

import org.apache.spark.util.{ShutdownHookManager, SignalUtils}

/**
 * Signals of the operating system to this process, and its end. Handlers are called by a thread of the JVM. Depends on `SignalUtils` and
 * `ShutdownHookManager`; without it a SIGTERM does not drain the application's queries.
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

  /** Calls `action` when this JVM ends, before Spark stops the application. Not called once the result is closed. */
  def beforeEnd(action: () => Unit): AutoCloseable = {
    val hook = ShutdownHookManager.addShutdownHook(action)
    () => { ShutdownHookManager.removeShutdownHook(hook); () }
  }

  /** Whether this JVM is about to end: its shutdown hooks run. */
  def isShuttingDown: Boolean = ShutdownHookManager.inShutdown()
}
