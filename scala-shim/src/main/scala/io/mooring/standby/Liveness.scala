package io.mooring.standby

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.mooring.common.{FailOpen, Daemon}

/** What `Liveness` calls when an executor leaves or is silent. All methods are called by its thread. */
trait Departures {

  /** Whether Spark gives the executor no new tasks, as it is to go: when it is decommissioned, for example. */
  def isLeaving(executor: String): Boolean

  /** Called once when an executor is found leaving. */
  def leaves(executor: String): Unit

  /** Called five times a second, once any executor has left or was found leaving. */
  def haveLeft(): Unit

  /** Called once for an executor that has been silent for so many milliseconds. */
  def isSilent(executor: String, forMs: Long): Unit
}

/**
 * Notices executors that are about to leave; and executors that are silent without having closed their connections, as they were
 * stopped or cut off. Each executor asks for the plan's version again and again, and is told when to ask next. An executor that is
 * late by more than the timeout is given up.
 *
 * On the driver: a daemon thread, from the making of this object until `stop`. Time counts only while the driver itself runs and any
 * executor asks: a pause of the driver is no executor's silence. An executor that is known to leave is not given up here. Without this
 * class, Spark's `spark.network.timeout` (two minutes) is the time until a silent executor is given up.
 */
final class Liveness(timeoutMs: Long, departures: Departures) {
  private val dueAt = new ConcurrentHashMap[String, Long]() // executor -> when it is to ask next, by the clock of `awake`
  private val left, gone = ConcurrentHashMap.newKeySet[String]() // ids are not used again
  @volatile private var awake = 0L // milliseconds in which this driver ran, and was asked by any executor
  @volatile private var askedAt = 0L // when any executor has asked, by the clock of `awake`

  private val thread = Daemon.start("mooring-liveness")(run())

  /** An executor has asked, and is to ask again within so many milliseconds. Called by threads that answer executors. */
  def hasAsked(executor: String, againInMs: Long): Unit = {
    askedAt = awake
    if (!gone.contains(executor)) dueAt.put(executor, awake + againInMs)
    if (gone.contains(executor)) dueAt.remove(executor) // it was removed in between
    ()
  }

  /** Spark has removed the executor. */
  def removed(executor: String): Unit = {
    gone.add(executor)
    dueAt.remove(executor)
    left.remove(executor)
    ()
  }

  def stop(): Unit = thread.interrupt()

  private def run(): Unit =
    try {
      var last = System.nanoTime()
      while (true) {
        Thread.sleep(Liveness.LookMs)
        val now = System.nanoTime()
        tick((now - last) / 1000000)
        last = now
      }
    } catch { case _: InterruptedException => } // the application ends

  /** Looks at all executors once, `passedMs` milliseconds after the last look. */
  private[standby] def tick(passedMs: Long): Unit = {
    // When all executors are silent at once, the fault is more likely the driver's: then its clock stops.
    if (dueAt.size < 2 || awake - askedAt < Liveness.NobodyMs) awake += math.min(passedMs, 2 * Liveness.LookMs)
    for ((executor, due) <- dueAt.asScala if !left.contains(executor)) FailOpen.otherwise("liveness watch", ()) {
      if (awake - due > timeoutMs) { if (dueAt.remove(executor, due)) departures.isSilent(executor, awake - due) }
      else if (departures.isLeaving(executor) && left.add(executor)) departures.leaves(executor)
    }
    if (!left.isEmpty || !gone.isEmpty) FailOpen.otherwise("liveness watch", ())(departures.haveLeft())
  }
}

object Liveness {
  private val LookMs = 200L
  private val NobodyMs = 5000L // an executor asks every second, or every five seconds where there is no agent
}
