package io.mooring.election

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock

import io.mooring.common.{Json, Log}

/** Another driver of this job has taken over; what this one would write now must not be written. */
final class LeadershipLostException(message: String) extends IllegalStateException(message)

/**
 * What the agent knows of the election at one moment.
 *
 * @param saidAt    milliseconds since 1970 at which it looked; a host that sleeps does not stop that clock
 * @param goodForMs for how long from then on it holds, whatever others do
 * @param contested whether another driver waits for its turn
 * @param epoch     when this driver leads: what stays the same while nobody else has led
 */
final case class Word(
    state: Word.State, leader: String, saidAt: Long, goodForMs: Long, contested: Boolean, epoch: String)

object Word {
  sealed trait State
  case object Waiting extends State
  case object Leading extends State
  /** No connection to the store at the moment, or no word yet. */
  case object Unknown extends State
  /** The agent can take part in no election. */
  case object NoElection extends State
  /** An option of the store is wrong: `leader` says which, for the user. */
  case object Refused extends State

  val Nothing: Word = Word(Unknown, "", 0, 0, contested = false, "")

  private val byName = Map("waiting" -> Waiting, "leading" -> Leading, "unknown" -> Unknown, "none" -> NoElection,
    "refused" -> Refused)

  def parse(json: String): Word = {
    val said = Json.read(json)
    Word(byName.getOrElse(said.get("state").asText(), Unknown), said.get("leader").asText(), said.get("said-at").asLong(),
      said.get("good-for-ms").asLong(), said.get("contested").asBoolean(), said.get("epoch").asText())
  }
}

/**
 * Whether this driver may go on, where several submissions of one job share a metadata store. The agent takes part in
 * the election and tells what it knows, again and again; here is what waits for its word. When the agent or the store
 * is silent nobody knows better than Spark's own logs of offsets and commits, and this driver goes on.
 *
 * @param firstWordMs   how long a driver that starts waits for a first word
 * @param renewedWordMs how long a driver under way waits for a fresh word when the last one holds no more
 * @param contestedMs   the same where another driver waits for its turn, and has it if the agent was silent for long
 */
final class Leadership(firstWordMs: Long, renewedWordMs: Long, contestedMs: Long) {
  import Word._

  private val lock = new ReentrantLock
  private val changed = lock.newCondition()
  private var word = Nothing
  private var heardAt = System.nanoTime()
  private var underWay = false
  private var lost = false
  private var epoch: Option[String] = None
  private var waitedInVain = false

  /**
   * Hears what the agent knows now; answers whether this driver still takes part. One under way that hears of another
   * leader, now or between two terms of its own, has lost for good: it may have been overtaken in anything. Without a
   * connection nothing is known, and what was known of others stays.
   */
  private[mooring] def told(news: Word): Boolean = locked {
    heardAt = System.nanoTime()
    val overtaken = news.state == Leading && epoch.exists(_ != news.epoch)
    if (underWay && (news.state == Waiting || overtaken)) lost = true
    if (news.state == Leading) epoch = Some(news.epoch)
    word = if (news.state == Unknown) news.copy(contested = word.contested) else news
    if (word.state != Unknown) waitedInVain = false
    changed.signalAll()
    !lost
  }

  def isLost: Boolean = locked(lost)

  /**
   * Returns when this driver leads; also when nobody can tell. That is after the first word's time, but once another
   * was heard to lead only if there will be no agent any more to hear of its end. The answer is null, or what is wrong
   * with a setting: then the driver must not start.
   */
  def awaitTurn(mayBeTold: => Boolean): String = locked {
    val began = System.nanoTime()
    var saidWho = ""
    def patienceFrom(nanos: Long) = System.nanoTime() - nanos < TimeUnit.MILLISECONDS.toNanos(firstWordMs)
    def isNews = word.state == Waiting && word.leader != saidWho
    def waits = if (saidWho.nonEmpty) mayBeTold || patienceFrom(heardAt) else mayBeTold && patienceFrom(began)
    def isDecided = word.state == Leading || word.state == NoElection || word.state == Refused
    while (!isDecided && (isNews || waits)) {
      if (isNews) {
        saidWho = word.leader
        Log.info(s"this driver is a standby: $saidWho leads. It waits, without executors, and takes over when that one ends")
      }
      changed.await(500, TimeUnit.MILLISECONDS)
    }
    underWay = true
    if (word.state == Refused) return word.leader
    if (word.state == Leading) { if (saidWho.nonEmpty) Log.info("this driver takes over: it leads now") }
    else Log.once("leadership", "it is not known whether another driver of this job leads: this one goes on; only Spark's " +
      "own log of commits keeps two from writing the same batch")
    null
  }

  /**
   * Refuses when another driver leads. A word that holds no more (this process may have been stopped for a while) is
   * renewed first; after one wait in vain nothing waits until the agent is heard again.
   */
  def check(what: String)(mayBeTold: => Boolean): Unit = locked {
    if (!holds && !waitedInVain) {
      val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(if (word.contested) contestedMs else renewedWordMs)
      while (!holds && !lost && mayBeTold && System.nanoTime() < deadline) changed.await(500, TimeUnit.MILLISECONDS)
      if (!holds && !lost) {
        waitedInVain = true
        Log.troubleOnce("leadership-unheard", s"nothing was heard of the election before $what was written: this driver goes on; " +
          "only Spark's own log of commits keeps two from writing the same batch")
      }
    }
    if (lost)
      throw new LeadershipLostException(s"$what is not written: another driver of this job, ${word.leader}, has taken over")
  }

  /**
   * Whether the last word lets this driver write: by two clocks, one that goes on while the host sleeps, and one that
   * nobody sets. Without a connection it does where no other driver was there that could have been elected meanwhile.
   */
  private def holds: Boolean = word.state == NoElection || (word.state == Leading || !word.contested) && {
    val age = System.currentTimeMillis() - word.saidAt
    -1000 < age && age < word.goodForMs && System.nanoTime() - heardAt < TimeUnit.MILLISECONDS.toNanos(word.goodForMs)
  }

  private def locked[T](body: => T): T = {
    lock.lockInterruptibly()
    try body
    finally lock.unlock()
  }
}

object Leadership {
  /** Whether the store is one that several drivers can share and be elected through. */
  def isShared(metadata: Option[String]): Boolean = metadata.exists(place => place.startsWith("zk:") || place.startsWith("kafka:"))
}
