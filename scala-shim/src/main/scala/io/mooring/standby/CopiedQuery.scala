package io.mooring.standby

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import io.mooring.restore.CommittedStores
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, KeyCounts, OpenStores, OperatorFacts, StreamShims}

/**
 * One run of a query whose tasks have copies: its commits, the rounds of its replica query, and the state of its copies.
 *
 * Threads: Spark's listener threads note commits and reports of executors; the replica query's thread asks for rounds and makes orders;
 * the thread of `Standbys` asks what to tell the agent.
 */
private final class CopiedQuery(val query: String, val run: String, private val operators: Seq[OperatorFacts]) {
  type Executor = (String, String) // id, host
  type HeldCopy = (Int, Executor) // a partition, and the executor that holds the copy

  private val runningQuery = StreamShims.query(query)
  @volatile private var firstBatchAt = System.nanoTime()
  @volatile var isOver = false
  // The version that was committed last: at first the one that the run's first batch builds on. Batch n makes version n + 1
  @volatile private var version: Long = operators.headOption.fold(0L)(_.batch)
  @volatile private var hasCommitted = false
  private var backToBack = BackToBack(0, 0)
  private val commits = new java.util.TreeMap[Long, Long]() // version -> when it was committed, in milliseconds
  private var copies = Map.empty[(Int, String), CopyState] // by partition and executor
  private var troubles = Map.empty[(Int, String), Trouble] // of copies that have failed since they were last made
  private var fetched = Map.empty[(Int, String), Long] // bytes since the last event
  private var hasChanged = false
  private var keyCounts = Map.empty[String, (Long, KeyCounts)] // unique id of a store's version -> the version, and its keys

  // The newest round
  private var holdersOfLastRound = Map.empty[Int, Seq[Executor]] // partition -> holders of its copies
  private var newestRound = Option.empty[Round]
  private var newestRoundAt = System.nanoTime()
  private var changedAt = Option.empty[Long] // when the plan's holders began to differ from `holdersOfLastRound`
  private var seenVersion = -1L // the version at the last call of `round`
  private var leftOutAt = Option.empty[Long] // when the round of that version was left out

  private var seenInBatchAt = System.nanoTime() // when the thread of `Standbys` has last seen a batch under way

  // Used by the replica query's thread alone. That thread may wait for the checkpoint, so it takes no lock for these.
  @volatile private var stores = Option.empty[CommittedStores]
  @volatile private var opened = Option.empty[CheckpointAccess]
  private var executorsWithCopies = Set.empty[Executor] // at the last call of `noteHolders`
  // Written by that thread alone: first `aboutToBeUsed`, then `lastHeld`. So `mayHaveCopiesAboutToBeUsed`, which another thread calls,
  // misses no copy.
  @volatile private var lastHeld = Set.empty[HeldCopy] // the copies of the last round that got orders
  // copies whose tasks are to run where the copies are -> the version when that was noticed
  @volatile private var aboutToBeUsed = Map.empty[HeldCopy, Long]

  /** The run's first batch is about to begin. That may be long after the run's start. */
  def begins(): Unit = firstBatchAt = System.nanoTime()

  /** Whether `other` is of the same run, with the same operators. */
  def isLike(other: CopiedQuery): Boolean = run == other.run && operators.toSet == other.operators.toSet

  def name: String = runningQuery.map(_.name).filter(_.nonEmpty).getOrElse(query.take(8))

  /** Whether copies may be made: after the run's first commit, so that its first batch has the executors to itself; or after 30 s. */
  def mayBegin: Boolean = version > 0 && (hasCommitted || System.nanoTime() - firstBatchAt > CopiedQuery.FirstBatchNanos)

  /** A batch has committed this version. It began at `beganMs` (since 1970), and took `tookMs`. */
  def committed(newest: Long, beganMs: Long, tookMs: Long): Unit = synchronized {
    hasCommitted = true
    backToBack = backToBack.after(beganMs, tookMs)
    commits.put(newest, System.currentTimeMillis())
    if (commits.size > CopiedQuery.MostCommits) commits.pollFirstEntry()
    version = newest
    keyCounts = keyCounts.filter { case (_, (counted, _)) => counted >= newest - CopiedQuery.VersionsInWork }
    hasChanged ||= copies.nonEmpty
    notifyAll()
  }

  /** A store's owner has counted the keys of a version that it has written. The commit comes later, or the batch fails. */
  def keysCounted(written: Long, id: String, counts: KeyCounts): Unit = synchronized {
    if (written >= version) keyCounts += id -> (written, counts)
  }

  private def countsOf(id: String): Option[KeyCounts] = synchronized { keyCounts.get(id).map(_._2) }

  /**
   * The newest round, or a new one for the holders that the plan has (`planned`). None before the first round. A new round is made
   *
   *  - after a commit, unless another commit is about to follow at once (`needsNoRound`);
   *  - five seconds after a round in which not all copies have come up to date;
   *  - three seconds after the holders have changed without a commit;
   *  - every thirty seconds while copies are about to be used, as executors close copies without orders after a minute.
   *
   * Rounds are half a second apart at least, except when the next batch may open a copy. After a change of the holders the round waits, as
   * an executor may be lost or leaving: a round would take slots from the batch that has to continue without that executor.
   */
  def round(planned: Map[Int, Seq[Executor]]): Option[Round] = synchronized {
    val clock = System.nanoTime()
    val age = clock - newestRoundAt
    changedAt = if (planned == holdersOfLastRound) None else changedAt.orElse(Some(clock))
    if (seenVersion != version) { // decided once for each version, so that a change of the holders within a batch causes no round
      seenVersion = version
      leftOutAt = Option.when(needsNoRound(planned))(clock)
    }
    val isForCommit = !newestRound.exists(_.version == version) && !leftOutAt.exists(clock - _ < CopiedQuery.ChangeNanos)
    val isOverdue = age > CopiedQuery.AgainNanos && copies.values.exists(_.version < version)
    val isLate = changedAt.exists(clock - _ > CopiedQuery.ChangeNanos)
    val isReminder = age > CopiedQuery.ReminderNanos && aboutToBeUsed.nonEmpty
    val isDueNow = age > CopiedQuery.BetweenRoundsNanos && (isForCommit || isOverdue || isLate || isReminder)
    if (mayBegin && (newestRound.isEmpty || isDueNow || isForCommit && mayBeOpened(planned))) {
      holdersOfLastRound = planned
      changedAt = None
      newestRound = Some(Round(version, CopiedQuery.rounds.incrementAndGet()))
      newestRoundAt = clock
    }
    newestRound
  }

  /**
   * Whether this commit needs no round of its own, as another commit is about to follow at once. An open copy is advanced by two changelogs
   * nearly as fast as by one, and rounds take processor time from the batches.
   */
  private def needsNoRound(planned: Map[Int, Seq[Executor]]): Boolean = backToBack.isOn && opened.exists(OpenStores.arePossible) &&
    newestRound.exists(_.version == version - 1) && planned == holdersOfLastRound && !mayBeOpened(planned)

  /** Whether tasks may be about to run where their copies are. */
  private def mayBeOpened(planned: Map[Int, Seq[Executor]]): Boolean =
    (lastHeld -- copiesIn(planned)).nonEmpty || aboutToBeUsed.exists { case (_, atVersion) => version <= atVersion + 1 }

  private def copiesIn(holders: Map[Int, Seq[Executor]]): Set[HeldCopy] =
    holders.toSeq.flatMap { case (partition, executors) => executors.map(partition -> _) }.toSet

  def access: CheckpointAccess = opened.getOrElse {
    val made = running.checkpointAccess
    opened = Some(made)
    made
  }

  /** The order for the copies of a partition: the newest version of all its stores. None while the commit log does not name it. */
  def order(partition: Int): Option[CopyOrder] = {
    val newest = version
    if (!stores.exists(known => known.version == newest && known.areKnown)) stores = Some(new CommittedStores(running, operators, newest))
    stores.flatMap(_.of(partition, countsOf)).map(CopyOrder(partition, newest, _))
  }

  /** Notes which partitions each executor is to hold copies of. Returns the executors that held copies before and hold none now. */
  def noteHolders(planned: Map[Executor, Seq[Int]]): Set[Executor] = {
    val withoutCopies = executorsWithCopies -- planned.keySet
    executorsWithCopies = planned.keySet
    // A set of pairs, as several executors may hold copies of one partition.
    val keys = planned.toSeq.flatMap { case ((executor, _), partitions) => partitions.map(_ -> executor) }.toSet
    synchronized {
      copies = keys.map(key => key -> copies.getOrElse(key, CopyState(key._1, -1, 0))).toMap
      troubles = troubles.filter { case (key, _) => keys(key) }
      hasChanged = true
    }
    withoutCopies
  }

  /**
   * The copies whose tasks are to run where the copies are. The plan does not count these copies as standbys any more, and no task has
   * taken them over yet. Meanwhile a batch may be under way elsewhere, so these copies are advanced to the version of that batch, too.
   * `preferred` is the executor on which the plan wants a task.
   */
  def copiesAboutToBeUsed(planned: Map[Int, Seq[Executor]], preferred: Int => Option[Executor]): Seq[HeldCopy] = {
    val (holding, newest) = (copiesIn(planned), version)
    val noLongerHeld = (lastHeld -- holding).map(_ -> newest)
    aboutToBeUsed = (aboutToBeUsed ++ noLongerHeld).filter { case (copy @ (partition, executor), atVersion) =>
      !holding(copy) && newest <= atVersion + 1 && preferred(partition).contains(executor)
    }
    lastHeld = holding
    aboutToBeUsed.keys.toSeq
  }

  /**
   * Whether a copy may still have to be advanced by one commit, although the plan has had no copies since `sinceNanos`
   * (System.nanoTime). True for ten seconds, as no commit may follow. While a batch is under way, and for ten seconds after it, true for
   * ten minutes at most. Called twice a second, by the thread of `Standbys`.
   */
  def mayHaveCopiesAboutToBeUsed(sinceNanos: Long): Boolean = {
    val now = System.nanoTime()
    if (runningQuery.exists(_.isInBatch)) seenInBatchAt = now
    val quietSince = if (seenInBatchAt - sinceNanos > 0) seenInBatchAt else sinceNanos
    (lastHeld.nonEmpty || aboutToBeUsed.nonEmpty) &&
      now - quietSince < CopiedQuery.AboutToBeUsedNanos && now - sinceNanos < CopiedQuery.LongestBatchNanos
  }

  def copyMade(executor: String, copy: CopyState, bytes: Long): Unit = synchronized {
    val key = (copy.partition, executor)
    if (copies.contains(key)) {
      copies += key -> copy
      troubles -= key
      fetched += key -> (fetched.getOrElse(key, 0L) + bytes)
      hasChanged = true
    }
  }

  def copyFailed(executor: String, partition: Int, why: String): Unit = synchronized {
    val (key, now) = ((partition, executor), System.nanoTime())
    if (copies.contains(key)) {
      troubles += key -> Trouble(why, troubles.get(key).fold(now)(_.first), now)
      hasChanged = true
    }
  }

  /** The next `copiesSeen` returns the state of all copies, whether or not it has changed. */
  def reportAgain(): Unit = synchronized { hasChanged = copies.nonEmpty }

  /** The event `CopiesSeen` for the agent: the state of all copies, if it has changed since the last call. */
  def copiesSeen(): Option[Map[String, Any]] = synchronized {
    Option.when(hasChanged) {
      hasChanged = false
      val now = System.currentTimeMillis()
      val states = copies.toSeq.sortBy(_._1).map { case (key @ (partition, executor), copy) =>
        Map("partition" -> partition, "executor" -> executor, "version" -> copy.version, "bytes" -> copy.bytes,
          "lag-ms" -> lagMs(copy, now), "fetched-bytes" -> fetched.getOrElse(key, 0L)) ++
          troubles.get(key).fold(Map.empty[String, Any])(trouble => Map("trouble" -> trouble.why, "trouble-ms" -> trouble.forMs))
      }
      fetched = Map.empty
      Map("event" -> "CopiesSeen", "query" -> query, "version" -> version, "copies" -> states)
    }
  }

  /** How long a newer version than the copy's has existed, in milliseconds. */
  private def lagMs(copy: CopyState, now: Long): Long =
    Option(commits.higherEntry(copy.version)).fold(0L)(first => math.max(0, now - first.getValue))

  private def running = runningQuery.getOrElse(throw new IllegalStateException(s"the query $query does not run any more"))
}

/** Why the last attempt to make a copy failed, and when the first and the last attempt failed (System.nanoTime). */
private final case class Trouble(why: String, first: Long, last: Long) {
  def forMs: Long = (last - first) / 1000000
}

/** Short batches that follow each other without a pause: when the last one ended (ms since 1970), and how many there have been. */
private final case class BackToBack(endedMs: Long, batches: Int) {
  /** From two on: a batch with data that has moved the watermark is followed at once by a batch without data. */
  def isOn: Boolean = batches > 1

  def after(beganMs: Long, tookMs: Long): BackToBack = {
    val isNext = math.abs(beganMs - endedMs) < CopiedQuery.PauseMs && tookMs < CopiedQuery.LongMs
    BackToBack(beganMs + tookMs, if (isNext) batches + 1 else 0)
  }
}

private object CopiedQuery {
  private val rounds = new AtomicLong
  private val MostCommits = 1000
  private val VersionsInWork = 3L // copies may still be on their way to any of the last three versions
  // A round costs the driver about as much as a small batch. A round that comes late leaves a batch's changelog to the take-over.
  private val BetweenRoundsNanos = TimeUnit.MILLISECONDS.toNanos(500)
  private val ChangeNanos = TimeUnit.SECONDS.toNanos(3)
  val PauseMs = 100L // a longer time between two batches is a pause
  val LongMs = 2000L // a batch that takes longer is no short batch: a round is little work beside it
  private val AgainNanos = TimeUnit.SECONDS.toNanos(5)
  private val AboutToBeUsedNanos = TimeUnit.SECONDS.toNanos(10)
  private val ReminderNanos = TimeUnit.SECONDS.toNanos(30)
  private val LongestBatchNanos = TimeUnit.MINUTES.toNanos(10)
  private val FirstBatchNanos = TimeUnit.SECONDS.toNanos(30)
}
