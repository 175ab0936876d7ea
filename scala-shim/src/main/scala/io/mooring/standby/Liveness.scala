package io.mooring.standby

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.mooring.common.{FailOpen, Daemon}

/** What is done about an executor that is not to have any more tasks. */
trait Departures {

  /** Whether Spark has been told that the executor will go, and gives it no new task: it is decommissioned, say. */
  def isLeaving(executor: String): Boolean

  /** Called once when an executor is found leaving. */
  def leaves(executor: String): Unit

  /** Called some times a second, once there was one that left. */
  def haveLeft(): Unit

  /** Called once when an executor has been silent for so many milliseconds. */
  def isSilent(executor: String, forMs: Long): Unit
}

/**
 * Notices executors that will go, and those that have fallen silent without closing their connections: stopped, or cut
 * off. An executor asks for its plan version again and again and is told when to ask next; one that is late by more than
 * the timeout is given up. A daemon thread, from its making until `stop`.
 *
 * Time counts only while this driver hears: a pause of its own is nobody's silence. Of an executor that is known to go
 * nothing more is expected: Spark's own timeout holds for it.
 */
final class Liveness(timeoutMs: Long, departures: Departures) {
  private val dueAt = new ConcurrentHashMap[String, Long]() // executor -> when it is to ask next, by the clock of `awake`
  private val left, gone = ConcurrentHashMap.newKeySet[String]() // ids are not used again
  @volatile private var awake = 0L // milliseconds in which this driver was awake, and heard anybody
  @volatile private var heardAt = 0L

  private val thread = Daemon.start("mooring-liveness")(run())

  /** An executor has spoken, and is to speak again within so many milliseconds. */
  def heard(executor: String, againInMs: Long): Unit = {
    heardAt = awake
    if (!gone.contains(executor)) dueAt.put(executor, awake + againInMs)
    if (gone.contains(executor)) dueAt.remove(executor) // it went in between
    ()
  }

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

  /** Looks once, after so many milliseconds. */
  private[standby] def tick(passedMs: Long): Unit = {
    // When all are silent at once, what does not hear is more likely here.
    if (dueAt.size < 2 || awake - heardAt < Liveness.NobodyMs) awake += math.min(passedMs, 2 * Liveness.LookMs)
    for ((executor, due) <- dueAt.asScala if !left.contains(executor)) FailOpen.otherwise("liveness watch", ()) {
      if (awake - due > timeoutMs) { if (dueAt.remove(executor, due)) departures.isSilent(executor, awake - due) }
      else if (departures.isLeaving(executor) && left.add(executor)) departures.leaves(executor)
    }
    if (!left.isEmpty || !gone.isEmpty) FailOpen.otherwise("liveness watch", ())(departures.haveLeft())
  }
}

object Liveness {
  private val LookMs = 200L
  private val NobodyMs = 5000L // an executor speaks once a second, or every five where there is no agent
}
