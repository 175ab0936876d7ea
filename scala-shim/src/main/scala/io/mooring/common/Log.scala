package io.mooring.common

import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

/** Mooring's voice in the log: one logger, and a memory of what was said already. */
object Log {
  private val log = LoggerFactory.getLogger("io.mooring.Mooring")
  private val said = ConcurrentHashMap.newKeySet[String]()

  def info(message: => String): Unit = if (log.isInfoEnabled) log.info(s"Mooring: $message")
  def warn(message: String): Unit = log.warn(s"Mooring: $message")

  /** Warns the first time that `topic` comes up in this JVM. */
  def once(topic: String, message: => String): Unit = if (said.add(topic)) warn(message)

  /** Warns of what goes wrong, or is missing. While the application ends that is no news for an operator. */
  def trouble(message: String): Unit = if (OrdinaryEnd.isUnderWay) asItEnds(message) else warn(message)

  /** The same, the first time that `topic` comes up while the application runs. */
  def troubleOnce(topic: String, message: => String): Unit = if (OrdinaryEnd.isUnderWay) asItEnds(message) else once(topic, message)

  /**
   * Warns of a failure that Mooring gets over, the first time that `topic` comes up. One that comes from an ordinary
   * end is not warned of, nor one of work that nobody waits for any more: `isOver`.
   */
  def failed(topic: String, failure: Throwable, isOver: => Boolean = false)(message: => String): Unit =
    if (OrdinaryEnd.explains(failure) || isOver) asItEnds(message) else once(topic, message)

  private def asItEnds(message: => String): Unit = info(s"at an ordinary end: $message")
}
