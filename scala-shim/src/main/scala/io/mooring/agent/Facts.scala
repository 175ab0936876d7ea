package io.mooring.agent

import java.util.concurrent.LinkedBlockingQueue

import scala.jdk.CollectionConverters._

import io.mooring.common.Log

/**
 * What executors have reported of committed state, for the catalogue. The agent takes it in portions, apart from the events,
 * which must not wait for it. RPC threads add, the thread that serves the agent takes.
 *
 * Where too many reports wait, new ones are dropped: the catalogue then lacks checksums of some versions.
 */
final class Facts {
  private val waiting = new LinkedBlockingQueue[String](Facts.MostKept)
  private val taken = new java.util.ArrayDeque[String]() // the last reports that were taken: the agent may die before it has written them

  def add(report: String): Unit =
    if (!waiting.offer(report)) Log.once("facts-lost", s"more than ${Facts.MostKept} facts of committed state wait for the agent: " +
      "the catalogue will lack checksums of some versions")

  /** At most `most` reports, as a JSON array. */
  def take(most: Int): String = synchronized {
    val now = new java.util.ArrayList[String]()
    waiting.drainTo(now, most)
    taken.addAll(now)
    while (taken.size > Facts.MostGivenAgain) taken.poll()
    now.asScala.mkString("[", ",", "]")
  }

  /** A new agent works from now on: it gets the reports again that the agent before has taken last. */
  def giveAgain(): Unit = synchronized {
    taken.forEach(add(_))
    taken.clear()
  }
}

object Facts {
  private val MostKept = 50000
  private val MostGivenAgain = 10000
}
