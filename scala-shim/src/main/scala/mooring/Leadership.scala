package io.mooring

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

/** Another driver of this job has taken over; what this one would write now must not be written. */
final class LeadershipLostException(message: String) extends IllegalStateException(message)

/**
 * Whether this driver may go on, where several submissions of one job share a metadata store. The agent takes part in
 * the election and tells what it knows, again and again; here is what waits for its word. When the agent or the store
 * is silent nobody knows better than Spark's own logs of offsets and commits, and this driver goes on.
 *
 * @param freshMs how old the agent's word may be before it is asked for again: well below the election's time limit
 */
final class Leadership(freshMs: Long) {
  import Leadership._

  private val lock = new ReentrantLock
  private val changed = lock.newCondition()
  private var state: State = Silent
  private var leader = ""
  private var heardAt = System.nanoTime()
  private var underWay = false

  /**
   * What the agent knows now. A driver under way that hears of another leader has lost, and never leads again: it may
   * have been overtaken in anything.
   */
  private[mooring] def told(news: State, who: String): Unit = locked {
    heardAt = System.nanoTime()
    leader = who
    if (state != Lost) state = if (news == Waiting && underWay) Lost else news
    changed.signalAll()
  }

  def isLost: Boolean = locked(state == Lost)

  /** Returns when this driver leads; also when nobody can tell: after `patienceMs`, or without hope. */
  def awaitTurn(patienceMs: Long)(mayBeTold: => Boolean): Unit = locked {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(patienceMs)
    var saidWho = ""
    def mayComeYet = (state == Silent || state == Unknown) && mayBeTold && System.nanoTime() < deadline
    while (state == Waiting || mayComeYet) {
      if (state == Waiting && leader != saidWho) {
        Say.info(s"this driver is a standby: $leader leads. It waits, without executors, and takes over when that one ends")
        saidWho = leader
      }
      changed.await(500, TimeUnit.MILLISECONDS)
    }
    underWay = true
    if (state == Leading) { if (saidWho.nonEmpty) Say.info("this driver takes over: it leads now") }
    else Say.once("leadership", "it is not known whether another driver of this job leads: this one goes on; only Spark's " +
      "own log of commits keeps two from writing the same batch")
  }

  /**
   * Refuses when another driver leads. An old word (this process may have been stopped for a while) is first renewed,
   * for at most `patienceMs`.
   */
  def check(what: String, patienceMs: Long): Unit = locked {
    val asked = System.nanoTime()
    if (asked - heardAt > TimeUnit.MILLISECONDS.toNanos(freshMs)) {
      val deadline = asked + TimeUnit.MILLISECONDS.toNanos(patienceMs)
      while (heardAt - asked < 0 && state != Lost && System.nanoTime() < deadline)
        changed.await(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)
    }
    if (state == Lost)
      throw new LeadershipLostException(s"$what is not written: another driver of this job, $leader, has taken over")
  }

  private def locked[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }
}

object Leadership {
  sealed trait State
  case object Silent extends State
  case object Waiting extends State
  case object Leading extends State
  case object Unknown extends State
  case object Lost extends State

  private val byName = Map("waiting" -> Waiting, "leading" -> Leading, "unknown" -> Unknown)

  def state(name: String): State = byName.getOrElse(name, Unknown)

  /** Whether the store is one that several drivers can share and be elected through. */
  def isShared(metadata: Option[String]): Boolean = metadata.exists(_.startsWith("zk:"))
}
