package io.mooring.agent

import java.util.concurrent.LinkedBlockingQueue

import scala.jdk.CollectionConverters._

import io.mooring.common.Log

/**
 * Reports of executors about committed state, for the catalogue. The agent takes them in portions. They do not go the way of the
 * events, as there may be many, and events must not wait behind them.
 *
 * RPC threads add reports, and the thread that serves the agent takes them. When too many reports wait, new ones are dropped. Then the
 * rows of some versions lack changelog, base, keys, bytes and host, and some snapshots have no row.
 */
final class StateReports {
  private val waiting = new LinkedBlockingQueue[String](StateReports.MostKept)
  private val taken = new java.util.ArrayDeque[String]() // the reports that were taken last; the agent may die before it has written them

  def add(report: String): Unit =
    if (!waiting.offer(report)) Log.once("state-reports-lost", s"more than ${StateReports.MostKept} reports of committed state wait " +
      "for the agent: some rows of the catalogue will lack files and sizes, and some snapshots will have no row")

  /** At most `most` reports, as a JSON array. */
  def take(most: Int): String = synchronized {
    val now = new java.util.ArrayList[String]()
    waiting.drainTo(now, most)
    taken.addAll(now)
    while (taken.size > StateReports.MostRequeued) taken.poll()
    now.asScala.mkString("[", ",", "]")
  }

  /** A new agent begins. Queues the reports again that the agent before it has taken last. */
  def requeueTaken(): Unit = synchronized {
    taken.forEach(add(_))
    taken.clear()
  }
}

object StateReports {
  private val MostKept = 50000
  private val MostRequeued = 10000
}
