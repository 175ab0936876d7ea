package io.mooring.election

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import io.mooring.common.Log

/** Another driver of this job leads now. What this driver was about to write must not be written. */
final class LeadershipLostException(message: String) extends IllegalStateException(message)

/**
 * Whether this driver may go on, where several submissions of one job share a metadata store. The agent takes part in the
 * election and reports again and again how it stands.
 *
 * The thread that serves the agent calls `update`. The thread that makes the SparkContext waits in `awaitTurn`, streams'
 * threads wait in `check`. While the agent or the store is silent, this driver goes on: then Spark's own logs of offsets and
 * commits keep two drivers from writing the same batch.
 *
 * @param firstStandingMs   how long a driver that starts waits for the agent's first report
 * @param renewedStandingMs how long a running driver waits for a new report when the last one holds no more
 * @param contestedMs       the same where another driver waits: it is elected when this driver's agent was silent for long
 */
final class Leadership(firstStandingMs: Long, renewedStandingMs: Long, contestedMs: Long) {
  import Standing._

  private val lock = new ReentrantLock
  private val changed = lock.newCondition()
  private var standing = NotReported
  private var reportedAt = System.nanoTime()
  private var isUnderWay = false // this driver has begun its work
  private var hasLost = false
  private var epoch: Option[String] = None
  private var hasWaitedInVain = false

  /**
   * Takes the agent's report. False when this driver takes part no more: a driver that is under way has lost for good when
   * another driver leads, or has led between two terms of this one. Where the agent has no connection, `contested` stays as it
   * was reported last.
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

  /**
   * Returns when this driver leads, or when nobody can tell. Nobody can tell when no report has come in `firstStandingMs`. Once
   * another driver was reported to lead, that is so only when no agent is expected that could report its end. Null, or what is
   * wrong with a setting: then the driver must not start.
   */
  def awaitTurn(isAgentExpected: => Boolean): String = locked {
    val began = System.nanoTime()
    var loggedLeader = ""
    def isWithinFirst(since: Long) = System.nanoTime() - since < TimeUnit.MILLISECONDS.toNanos(firstStandingMs)
    def hasOtherLeader = standing.state == Waiting && standing.leader != loggedLeader
    def waits =
      if (loggedLeader.nonEmpty) isAgentExpected || isWithinFirst(reportedAt) else isAgentExpected && isWithinFirst(began)
    def isDecided = standing.state == Leading || standing.state == NoElection || standing.state == Refused
    while (!isDecided && (hasOtherLeader || waits)) {
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
   * LeadershipLostException when another driver leads. When the last report holds no more, waits for a new one first: this
   * process may have been stopped for a while. After one wait in vain, nothing waits until the agent reports again.
   */
  def check(what: String)(isAgentExpected: => Boolean): Unit = locked {
    if (!mayWrite && !hasWaitedInVain) {
      val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(if (standing.contested) contestedMs else renewedStandingMs)
      while (!mayWrite && !hasLost && isAgentExpected && System.nanoTime() < deadline) changed.await(500, TimeUnit.MILLISECONDS)
      if (!mayWrite && !hasLost) {
        hasWaitedInVain = true
        Log.troubleOnce("leadership-unheard", s"nothing was heard of the election before $what was written: this driver goes on; " +
          "only Spark's own log of commits keeps two from writing the same batch")
      }
    }
    if (hasLost)
      throw new LeadershipLostException(s"$what is not written: another driver of this job, ${standing.leader}, has taken over")
  }

  /**
   * Whether the last report lets this driver write. Its age is measured by two clocks: one that goes on while the host sleeps,
   * and one that nobody sets. A report without a connection counts where no other driver waited that could have been elected.
   */
  private def mayWrite: Boolean = standing.state == NoElection || (standing.state == Leading || !standing.contested) && {
    val age = System.currentTimeMillis() - standing.saidAt
    -1000 < age && age < standing.goodForMs && System.nanoTime() - reportedAt < TimeUnit.MILLISECONDS.toNanos(standing.goodForMs)
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
