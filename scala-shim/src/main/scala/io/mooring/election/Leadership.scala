package io.mooring.election

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import io.mooring.common.Log

/** Another driver of this job leads, so this driver must not write. */
final class LeadershipLostException(message: String) extends IllegalStateException(message)

/**
 * Decides whether this driver may start and may write, when several drivers of one job share a metadata store. The agent takes part
 * in the election, and reports its standing periodically. A report is valid for a limited time.
 *
 * Threads: the thread that serves the agent calls `update`. The thread that makes the SparkContext waits in `awaitTurn`. Streams'
 * threads wait in `check`. It uses nothing of Spark. When no valid report comes in time, this driver continues. Then only Spark's
 * own logs of offsets and commits keep two drivers from writing the same batch.
 *
 * @param firstStandingMs   how long a driver that starts waits for the agent's first report
 * @param renewedStandingMs how long a running driver waits for a new report when the last report is not valid any more
 * @param contestedMs       the same, when another driver waits for its turn: the store elects that driver when this driver's agent
 *                          is silent for long
 */
final class Leadership(firstStandingMs: Long, renewedStandingMs: Long, contestedMs: Long) {
  import Standing._

  private val lock = new ReentrantLock
  private val changed = lock.newCondition()
  private var standing = NotReported
  private var reportedAt = System.nanoTime()
  private var isUnderWay = false // this driver has begun its work
  private var hasLost = false
  private var hasEnded = false // this driver has led, and its application ends
  private var epoch: Option[String] = None
  private var hasWaitedInVain = false // whether `check` has waited for a report and none came; until the next report

  /**
   * Takes the agent's report. False when this driver has lost. A driver that has begun its work loses, for good, when another
   * driver leads, or has led between two terms of this driver. While the agent has no connection to the store, `contested` keeps
   * the value of the last report.
   */
  private[mooring] def update(reported: Standing): Boolean = locked {
    reportedAt = System.nanoTime()
    val anotherHasLed = reported.state == Leading && epoch.exists(_ != reported.epoch)
    if (isUnderWay && (reported.state == Waiting || anotherHasLed)) hasLost = true
    if (reported.state == Leading) epoch = Some(reported.epoch)
    standing = if (reported.state == Unknown) reported.copy(contested = standing.contested) else reported
    if (standing.state != Unknown) hasWaitedInVain = false
    changed.signalAll()
    !hasLost
  }

  def isLost: Boolean = locked(hasLost)

  /** Whether no write of this driver is allowed any more. */
  def isOver: Boolean = uninterruptibly(hasLost || hasEnded)

  /**
   * The application ends, and the agent stands down: another driver may lead at once. If this driver has led, `check` refuses from now
   * on.
   */
  private[mooring] def end(): Unit = uninterruptibly {
    hasEnded = epoch.isDefined
    changed.signalAll()
  }

  /**
   * Blocks until this driver leads, or takes part in no election, or no report can be awaited any more. While no report has named
   * another leader, reports are awaited for `firstStandingMs`, and only while an agent is expected. Once a report has named another
   * leader, they are awaited as long as an agent is expected that could report the end of that leader.
   *
   * Returns null; or what is wrong with a setting, if the agent has found a fault. Then the driver must not start.
   */
  def awaitTurn(isAgentExpected: => Boolean): String = locked {
    val began = System.nanoTime()
    var loggedLeader = "" // the last other leader that a report has named
    def isWithinFirst(since: Long) = System.nanoTime() - since < TimeUnit.MILLISECONDS.toNanos(firstStandingMs)
    def hasOtherLeader = standing.state == Waiting && standing.leader != loggedLeader
    def canReportCome =
      if (loggedLeader.nonEmpty) isAgentExpected || isWithinFirst(reportedAt) else isAgentExpected && isWithinFirst(began)
    def isDecided = standing.state == Leading || standing.state == NoElection || standing.state == Refused
    while (!isDecided && (hasOtherLeader || canReportCome)) {
      if (hasOtherLeader) {
        loggedLeader = standing.leader
        Log.info(s"this driver is a standby: $loggedLeader leads. It waits, without executors, and takes over when that one ends")
      }
      changed.await(500, TimeUnit.MILLISECONDS)
    }
    isUnderWay = true
    if (standing.state == Refused) return standing.leader
    if (standing.state == Leading) { if (loggedLeader.nonEmpty) Log.info("this driver takes over: it leads now") }
    else Log.once("leadership", "it is not known whether another driver of this job leads: this one goes on; only Spark's " +
      "own log of commits keeps two from writing the same batch")
    null
  }

  /**
   * Throws LeadershipLostException when another driver leads, or may lead after `end`. When the last report is not valid any more,
   * waits for a new report first, as this process may have been stopped for a while. After a wait without a report, no call waits
   * until the agent reports again. `what` names the write, for messages.
   */
  def check(what: String)(isAgentExpected: => Boolean): Unit = locked {
    if (!mayWrite && !hasWaitedInVain && !hasEnded) {
      val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(if (standing.contested) contestedMs else renewedStandingMs)
      while (!mayWrite && !hasLost && !hasEnded && isAgentExpected && System.nanoTime() < deadline) changed.await(500, TimeUnit.MILLISECONDS)
      if (!mayWrite && !hasLost && !hasEnded) {
        hasWaitedInVain = true
        Log.troubleOnce("leadership-unheard", s"nothing was heard of the election before $what was written: this driver goes on; " +
          "only Spark's own log of commits keeps two from writing the same batch")
      }
    }
    if (hasLost)
      throw new LeadershipLostException(s"$what is not written: another driver of this job, ${standing.leader}, has taken over")
    if (hasEnded) throw new LeadershipLostException(s"$what is not written: the application ends, and another driver of this job may lead")
  }

  /**
   * Whether the last report allows this driver to write. A report that this driver leads allows it while the report is valid. So does
   * a report from an agent without a connection, if no other driver waited: then no other driver can have been elected.
   *
   * The report's age is measured by two clocks. The wall clock runs while the host sleeps; the monotonic clock can not be set.
   */
  private def mayWrite: Boolean = standing.state == NoElection || (standing.state == Leading || !standing.contested) && {
    val age = System.currentTimeMillis() - standing.saidAt
    -1000 < age && age < standing.goodForMs && System.nanoTime() - reportedAt < TimeUnit.MILLISECONDS.toNanos(standing.goodForMs)
  }

  /** For the end of the application: its other steps depend on it. */
  private def uninterruptibly[T](body: => T): T = {
    lock.lock()
    try body
    finally lock.unlock()
  }

  private def locked[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }
}

object Leadership {
  /** Whether several drivers can share the metadata store, and be elected through it. */
  def isShared(metadata: Option[String]): Boolean = metadata.exists(place => place.startsWith("zk:") || place.startsWith("kafka:"))
}
