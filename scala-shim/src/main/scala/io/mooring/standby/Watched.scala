package io.mooring.standby

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import io.mooring.restore.CommittedStores
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, KeyCounts, OpenStores, OperatorFacts, StreamShims}

/** One run of a query that has standbys: which versions it has committed, and how the copies of them stand. */
private final class Watched(val query: String, val run: String, private val operators: Seq[OperatorFacts]) {
  type Executor = (String, String) // id, host
  type Place = (Int, Executor) // of a copy: whose it is, and who holds it

  private val shim = StreamShims.query(query)
  @volatile private var began = System.nanoTime()
  @volatile var isOver = false
  @volatile private var version: Long = operators.headOption.fold(-1L)(_.batch).max(0)
  @volatile private var hasCommitted = false
  private var rush = Rush(0, 0)
  private val commits = new java.util.TreeMap[Long, Long]() // version -> when it was committed, in milliseconds
  private var copies = Map.empty[(Int, String), CopyState] // by partition and executor
  private var troubles = Map.empty[(Int, String), Trouble] // of those that have failed since they were last made
  private var fetched = Map.empty[(Int, String), Long] // bytes since the last news
  private var isNews = false
  private var counted = Map.empty[String, (Long, KeyCounts)] // unique id of a store's version -> the version, and its keys

  // Of the round that was offered last
  private var placed = Map.empty[Int, Seq[Executor]] // partition -> holders of its copies
  private var offered = Option.empty[Round]
  private var offeredAt = System.nanoTime()
  private var changedAt = Option.empty[Long] // since when others than `placed` are to hold copies
  private var looked = -1L // the newest version at the last look
  private var sparedAt = Option.empty[Long] // since when its round is left to the next commit, if it is

  // Of the replica query's thread alone, which may wait for the checkpoint: nobody else must wait for that.
  @volatile private var stores = Option.empty[CommittedStores]
  @volatile private var opened = Option.empty[CheckpointAccess]
  private var holders = Set.empty[Executor]
  // Written by that thread alone, the second one first.
  @volatile private var held = Set.empty[Place] // of the round whose orders were given last
  @volatile private var comers = Map.empty[Place, Long] // see arrivals -> the version then

  /** Its first batch is about to begin: it may be long after the run has. */
  def begins(): Unit = began = System.nanoTime()

  /** Whether they are of one run, and of the same operators. */
  def isLike(other: Watched): Boolean = run == other.run && operators.toSet == other.operators.toSet

  def name: String = shim.map(_.name).filter(_.nonEmpty).getOrElse(query.take(8))

  /** The first batch of a run has the executors to itself, unless none comes. */
  def isDue: Boolean = version > 0 && (hasCommitted || System.nanoTime() - began > Watched.PatienceNanos)

  /** A batch has left this version; when it began, in milliseconds since 1970, and how many it took. */
  def committed(newest: Long, beganMs: Long, tookMs: Long): Unit = synchronized {
    hasCommitted = true
    rush = rush.after(beganMs, tookMs)
    commits.put(newest, System.currentTimeMillis())
    if (commits.size > Watched.MostCommits) commits.pollFirstEntry()
    version = newest
    counted = counted.filter { case (_, (of, _)) => of >= newest - Watched.VersionsInWork }
    isNews ||= copies.nonEmpty
    notifyAll()
  }

  /** Told before the commit of which it is; if there is none it goes with the next one. */
  def keysCounted(of: Long, id: String, counts: KeyCounts): Unit = synchronized { if (of >= version) counted += id -> (of, counts) }

  private def countsOf(id: String): Option[KeyCounts] = synchronized { counted.get(id).map(_._2) }

  /**
   * The newest round, when its copies are to be held by these: another than the last one after a commit, some seconds after
   * the holders have changed without one, and some seconds after a round that has not brought all copies up to date. At
   * most two a second, but when the next batch may open a copy. None before any commit.
   *
   * Holders also change when an executor is lost, or is about to go: a round then would take slots from the batch that has
   * to go on without it.
   */
  def round(now: Map[Int, Seq[Executor]]): Option[Round] = synchronized {
    val clock = System.nanoTime()
    val age = clock - offeredAt
    changedAt = if (now == placed) None else changedAt.orElse(Some(clock))
    if (looked != version) { // what changes later is no reason for a round amid a batch
      looked = version
      sparedAt = Option.when(canBeSpared(now))(clock)
    }
    val isCommit = !offered.exists(_.version == version) && !sparedAt.exists(clock - _ < Watched.ChangeNanos)
    val isOverdue = age > Watched.AgainNanos && copies.values.exists(_.version < version)
    val isLate = changedAt.exists(clock - _ > Watched.ChangeNanos)
    val isForNext = age > Watched.PauseNanos && (isCommit || isOverdue || isLate)
    if (isDue && (offered.isEmpty || isForNext || isCommit && mayBeOpened(now))) {
      placed = now
      changedAt = None
      offered = Some(Round(version, Watched.rounds.incrementAndGet()))
      offeredAt = clock
    }
    offered
  }

  /**
   * Whether this commit needs no round, when another is to follow at once: an open copy goes on by two changelogs nearly as
   * fast as by one, and rounds take processor time from the batches.
   */
  private def canBeSpared(now: Map[Int, Seq[Executor]]): Boolean = rush.isOn && opened.exists(OpenStores.areOf) &&
    offered.exists(_.version == version - 1) && now == placed && !mayBeOpened(now)

  /** Whether tasks have come, or may be about to come, to where their copies are. */
  private def mayBeOpened(now: Map[Int, Seq[Executor]]): Boolean =
    (held -- placesIn(now)).nonEmpty || comers.exists { case (_, since) => version <= since + 1 }

  private def placesIn(holders: Map[Int, Seq[Executor]]): Set[Place] =
    holders.toSeq.flatMap { case (partition, executors) => executors.map(partition -> _) }.toSet

  def access: CheckpointAccess = opened.getOrElse {
    val made = running.checkpointAccess
    opened = Some(made)
    made
  }

  /** The newest version of all stores of a partition; None while there is none, or the commit log does not tell it. */
  def order(partition: Int): Option[CopyOrder] = {
    val newest = version
    if (!stores.exists(known => known.version == newest && known.areKnown)) stores = Some(new CommittedStores(running, operators, newest))
    stores.flatMap(_.of(partition, countsOf)).map(CopyOrder(partition, newest, _))
  }

  /** Who holds which partitions from now on; answers who held some until now and holds none any more. */
  def holds(now: Map[Executor, Seq[Int]]): Set[Executor] = {
    val relieved = holders -- now.keySet
    holders = now.keySet
    val keys = now.toSeq.flatMap { case ((executor, _), partitions) => partitions.map(_ -> executor) }.toSet // no map: of one partition several hold copies
    synchronized {
      copies = keys.map(key => key -> copies.getOrElse(key, CopyState(key._1, -1, 0))).toMap
      troubles = troubles.filter { case (key, _) => keys(key) }
      isNews = true
    }
    relieved
  }

  /**
   * The copies to which their tasks come: no standbys any more, and not yet taken over. A batch that ran elsewhere may
   * have been under way then, so they are brought on to what that one commits as well. `runsAt` is where a task runs.
   */
  def arrivals(now: Map[Int, Seq[Executor]], runsAt: Int => Option[Executor]): Seq[Place] = {
    val (holding, newest) = (placesIn(now), version)
    val left = (held -- holding).map(_ -> newest)
    comers = (comers ++ left).filter { case (place @ (partition, executor), since) =>
      !holding(place) && newest <= since + 1 && runsAt(partition).contains(executor)
    }
    held = holding
    comers.keys.toSeq
  }

  /**
   * Whether a copy may have to go on to one commit more, when nobody is to hold copies since then (by System.nanoTime); not
   * for ever, as there may be none.
   */
  def isAwaited(since: Long): Boolean = (held.nonEmpty || comers.nonEmpty) && System.nanoTime() - since < Watched.AwaitedNanos

  def copyMade(executor: String, copy: CopyState, bytes: Long): Unit = synchronized {
    val key = (copy.partition, executor)
    if (copies.contains(key)) {
      copies += key -> copy
      troubles -= key
      fetched += key -> (fetched.getOrElse(key, 0L) + bytes)
      isNews = true
    }
  }

  def copyFailed(executor: String, partition: Int, why: String): Unit = synchronized {
    val (key, now) = ((partition, executor), System.nanoTime())
    if (copies.contains(key)) {
      troubles += key -> Trouble(why, troubles.get(key).fold(now)(_.first), now)
      isNews = true
    }
  }

  def tellAgain(): Unit = synchronized { isNews = copies.nonEmpty }

  /** How the copies stand, when that has changed since the last call. */
  def news(): Option[Map[String, Any]] = synchronized {
    Option.when(isNews) {
      isNews = false
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

  /** For how long there has been a version that the copy has not. */
  private def lagMs(copy: CopyState, now: Long): Long =
    Option(commits.higherEntry(copy.version)).fold(0L)(first => math.max(0, now - first.getValue))

  private def running = shim.getOrElse(throw new IllegalStateException(s"the query $query does not run any more"))
}

/** Why a copy was not made at its last attempt; by System.nanoTime when that failed first, and last. */
private final case class Trouble(why: String, first: Long, last: Long) {
  def forMs: Long = (last - first) / 1000000
}

/** When the last batch was over, in milliseconds since 1970, and how many have followed one another at once, short ones. */
private final case class Rush(endedMs: Long, batches: Int) {
  /** A batch without data follows at once on one with data, where that has moved the watermark: so it takes two. */
  def isOn: Boolean = batches > 1

  def after(beganMs: Long, tookMs: Long): Rush = {
    val isNext = math.abs(beganMs - endedMs) < Watched.RushMs && tookMs < Watched.LongMs
    Rush(beganMs + tookMs, if (isNext) batches + 1 else 0)
  }
}

private object Watched {
  private val rounds = new AtomicLong
  private val MostCommits = 1000
  private val VersionsInWork = 3L // since a round has begun for one of them
  // A round costs the driver about as much as a small batch; one that waits leaves a batch's changelog to the take-over.
  private val PauseNanos = TimeUnit.MILLISECONDS.toNanos(500)
  private val ChangeNanos = TimeUnit.SECONDS.toNanos(3)
  val RushMs = 100L // between two batches
  val LongMs = 2000L // of a batch, beside which a round is little
  private val AgainNanos = TimeUnit.SECONDS.toNanos(5)
  private val AwaitedNanos = TimeUnit.SECONDS.toNanos(10)
  private val PatienceNanos = TimeUnit.SECONDS.toNanos(30)
}
