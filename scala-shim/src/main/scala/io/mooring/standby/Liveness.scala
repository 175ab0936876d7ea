package io.mooring.standby

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.mooring.common.{FailOpen, Daemon}

/** What `Liveness` calls when an executor leaves or is silent. All methods are called by its thread. */
trait Departures {

  /** Whether Spark gives the executor no new tasks, as the executor is to be removed or decommissioned. */
  def isLeaving(executor: String): Boolean

  /** Called once for an executor that is found leaving. */
  def onLeaving(executor: String): Unit

  /** Called five times a second, from the first time on that an executor was found leaving or was removed. */
  def afterDepartures(): Unit

  /** Called once for an executor that has been silent for `forMs` milliseconds. */
  def onSilence(executor: String, forMs: Long): Unit
}

/**
 * Notices executors that are about to leave, and executors that are silent. A silent executor was stopped or cut off from the network, and
 * has closed no connection. Each executor polls the driver for the version of the job model; each answer sets the time of the next poll. An executor
 * that is late by more than the timeout counts as lost.
 *
 * On the driver: a daemon thread, from the making of this object until `stop`; RPC threads call `polled`, Spark's listener thread calls
 * `removed`. A pause of the driver does not count as silence of executors. With two or more executors, the clock stops when none has polled
 * for five seconds. With one executor it does not stop. An executor that is leaving is not watched for silence. Without this class, Spark
 * removes a silent executor after `spark.network.timeout` (two minutes).
 */
final class Liveness(timeoutMs: Long, departures: Departures) {
  private val dueAt = new ConcurrentHashMap[String, Long]() // executor -> the time of its next poll, by the clock `clockMs`
  private val leaving = ConcurrentHashMap.newKeySet[String]() // executors that were found leaving
  private val removedIds = ConcurrentHashMap.newKeySet[String]() // executors that were removed; ids are not used again
  @volatile private var clockMs = 0L // the milliseconds in which this driver ran and executors polled it
  @volatile private var polledAt = 0L // the time of the last poll of any executor, by the clock `clockMs`

  private val thread = Daemon.start("mooring-liveness")(run())

  /** An executor has polled, and is to poll again within `againInMs` milliseconds. */
  def polled(executor: String, againInMs: Long): Unit = {
    polledAt = clockMs
    if (!removedIds.contains(executor)) dueAt.put(executor, clockMs + againInMs)
    if (removedIds.contains(executor)) dueAt.remove(executor) // the executor was removed meanwhile
    ()
  }

  /** Spark has removed the executor. */
  def removed(executor: String): Unit = {
    removedIds.add(executor)
    dueAt.remove(executor)
    leaving.remove(executor)
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
    // When all executors are silent at once, the fault is more likely the driver's. Then the clock stops.
    if (dueAt.size < 2 || clockMs - polledAt < Liveness.ClockStopsAfterMs) clockMs += math.min(passedMs, 2 * Liveness.LookMs)
    for ((executor, due) <- dueAt.asScala if !leaving.contains(executor)) FailOpen.otherwise("liveness watch", ()) {
      if (clockMs - due > timeoutMs) { if (dueAt.remove(executor, due)) departures.onSilence(executor, clockMs - due) }
      else if (departures.isLeaving(executor) && leaving.add(executor)) departures.onLeaving(executor)
    }
    if (!leaving.isEmpty || !removedIds.isEmpty) FailOpen.otherwise("liveness watch", ())(departures.afterDepartures())
  }
}

object Liveness {
  private val LookMs = 200L
  private val ClockStopsAfterMs = 5000L // an executor polls every second, or every five seconds when no agent is expected
}
