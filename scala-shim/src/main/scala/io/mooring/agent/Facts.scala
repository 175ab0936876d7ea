package io.mooring.agent

import java.util.concurrent.LinkedBlockingQueue

import scala.jdk.CollectionConverters._

import io.mooring.common.Log

/**
 * What executors have told of committed state, for the catalogue: kept until the agent takes it, apart from the news, which
 * must not wait for it. What nobody takes is lost from some number on; the catalogue then does without.
 */
final class Facts {
  private val told = new LinkedBlockingQueue[String](Facts.MostKept)
  private val taken = new java.util.ArrayDeque[String]() // the last ones, as an agent may die over them

  def add(report: String): Unit =
    if (!told.offer(report)) Log.once("facts-lost", s"more than ${Facts.MostKept} facts of committed state wait for the agent: " +
      "the catalogue will lack checksums of some versions")

  /** At most so many, as a JSON array. */
  def take(most: Int): String = synchronized {
    val now = new java.util.ArrayList[String]()
    told.drainTo(now, most)
    taken.addAll(now)
    while (taken.size > Facts.MostGivenAgain) taken.poll()
    now.asScala.mkString("[", ",", "]")
  }

  /** Another agent works from now on: it hears what its predecessor was told last. */
  def again(): Unit = synchronized {
    taken.forEach(add(_))
    taken.clear()
  }
}

object Facts {
  private val MostKept = 50000
  private val MostGivenAgain = 10000
}
