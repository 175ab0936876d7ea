package io.mooring

import java.util.concurrent.ConcurrentHashMap

import org.slf4j.LoggerFactory

/** Mooring's voice in the log: one logger, and a memory of what was said already. */
object Say {
  private val log = LoggerFactory.getLogger("io.mooring.Mooring")
  private val said = ConcurrentHashMap.newKeySet[String]()

  def info(message: => String): Unit = if (log.isInfoEnabled) log.info(s"Mooring: $message")
  def warn(message: String): Unit = log.warn(s"Mooring: $message")

  /** Warns the first time that `topic` comes up in this JVM. */
  def once(topic: String, message: => String): Unit = if (said.add(topic)) warn(message)
}
