package io.mooring.common

import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

/** Writes Mooring's lines to the log, by one logger, and remembers the topics of lines that are logged once. Called by any thread. */
object Log {
  private val log = LoggerFactory.getLogger("io.mooring.Mooring")
  private val loggedTopics = ConcurrentHashMap.newKeySet[String]()

  def info(message: => String): Unit = if (log.isInfoEnabled) log.info(s"Mooring: $message")
  def warn(message: String): Unit = log.warn(s"Mooring: $message")

  /** Warns, the first time that it is called with this topic in this JVM. */
  def once(topic: String, message: => String): Unit = if (loggedTopics.add(topic)) warn(message)

  /** Warns of a fault. While the application ends, the line is at level INFO, as an operator need not act on it. */
  def trouble(message: String): Unit = if (OrdinaryEnd.isUnderWay) asItEnds(message) else warn(message)

  /** The same as `trouble`, but warns only the first time that it is called with this topic while the application runs. */
  def troubleOnce(topic: String, message: => String): Unit = if (OrdinaryEnd.isUnderWay) asItEnds(message) else once(topic, message)

  /**
   * Warns of a failure that Mooring handles, the first time that it is called with this topic. The line is at level INFO when the
   * failure comes from an ordinary end (`OrdinaryEnd`), and when nothing needs the failed work any more (`isOver`).
   */
  def failed(topic: String, failure: Throwable, isOver: => Boolean = false)(message: => String): Unit =
    if (OrdinaryEnd.explains(failure) || isOver) asItEnds(message) else once(topic, message)

  private def asItEnds(message: => String): Unit = info(s"at an ordinary end: $message")
}
