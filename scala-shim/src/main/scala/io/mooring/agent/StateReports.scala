package io.mooring.agent

import java.util.concurrent.LinkedBlockingQueue

import scala.jdk.CollectionConverters._

import io.mooring.common.Log

/**
 * Reports of executors about committed state, for the catalogue. The agent takes them in portions. They do not go the way of the
 * events, as there may be many, and events must not wait behind them.
 *
 * The RPC thread of plugins adds reports, and a thread that serves the agent takes them. When too many reports wait, new ones are
 * dropped. Then the rows of some versions lack changelog, base, keys, bytes and host, and some snapshots have no row.
 */
final class StateReports {
  private val waiting = new LinkedBlockingQueue[String](StateReports.MostKept)
  private val taken = new java.util.ArrayDeque[String]() // reports that the agent took last, and may not have written yet
  private var areSomeForgotten = false // whether some of these are not in `taken` any more

  def add(report: String): Unit = if (!waiting.offer(report)) sayLost()

  private def sayLost(): Unit =
    Log.once("state-reports-lost", s"more than ${StateReports.MostKept} reports of committed state wait " +
      "for the agent: some rows of the catalogue will lack files and sizes, and some snapshots will have no row")

  /** At most `most` reports, as a JSON array. */
  def take(most: Int): String = synchronized {
    val now = new java.util.ArrayList[String]()
    waiting.drainTo(now, most)
    taken.addAll(now)
    if (trimTaken(StateReports.MostKept)) areSomeForgotten = true
    now.asScala.mkString("[", ",", "]")
  }

  /**
   * The agent has written the rows of all versions that were committed so far. Of the reports that it took, only the last
   * `MostRequeued` are kept: their versions may be committed later.
   */
  def written(): Unit = synchronized {
    val _ = trimTaken(StateReports.MostRequeued)
    areSomeForgotten = false
  }

  /** A new agent begins: queues again the last reports that the earlier agent took, at most `MostKept`. */
  def requeueTaken(): Unit = synchronized {
    if (areSomeForgotten) sayLost()
    areSomeForgotten = false
    taken.forEach(add(_))
    taken.clear()
  }

  /** Whether some were removed. */
  private def trimTaken(most: Int): Boolean = {
    val isTooMany = taken.size > most
    while (taken.size > most) taken.poll()
    isTooMany
  }
}

object StateReports {
  private val MostKept = 50000
  private val MostRequeued = 10000
}
