package io.mooring

import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.state.mooring.{CheckpointAccess, OperatorFacts, Replica, StreamDoors}

/**
 * The replica queries of this driver: one for each running query of which the plan names copies. A thread of its own
 * starts and stops them, and tells the agent how the copies stand; Spark's threads only leave word here.
 */
final class Standbys(table: PlacementTable, bridge: Bridge) {
  private val watched = new ConcurrentHashMap[String, Watched]() // query id -> what is known of its run

  private val thread = Executors.newSingleThreadScheduledExecutor { (work: Runnable) =>
    val made = new Thread(work, "mooring-standbys")
    made.setDaemon(true)
    made
  }
  thread.scheduleWithFixedDelay(() => Aside.otherwise("standbys", ())(tend()), Standbys.TendMs, Standbys.TendMs, TimeUnit.MILLISECONDS)

  /** A run of a query begins. */
  def planned(query: String, run: String, operators: Seq[OperatorFacts]): Unit = {
    watched.compute(query, (_, before) => {
      if (before != null) before.isOver = true
      new Watched(query, run, operators.filter(_.stores.nonEmpty).distinctBy(_.id), before)
    })
    ()
  }

  /** A batch is committed: its state is what the copies are to hold. */
  def committed(query: String, batch: Long): Unit = Option(watched.get(query)).foreach(_.committed(batch + 1))

  def ended(query: String, run: String): Unit = Option(watched.get(query)).filter(_.run == run).foreach(_.isOver = true)

  def copyMade(executor: String, query: String, copy: CopyState, fetched: Long): Unit =
    Option(watched.get(query)).foreach(_.copyMade(executor, copy, fetched))

  /** The newest round that there is, once it is another than `last`, or after a second. */
  def awaitRound(query: String, last: Round): Round = {
    val of = find(query)
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Standbys.LongestWaitMs)
    of.synchronized {
      while (roundOf(of) == last && deadline > System.nanoTime()) of.wait(Standbys.LookMs)
      roundOf(of)
    }
  }

  private def roundOf(of: Watched): Round = if (of.version < 0) Round.Nothing else Round(of.version, table.version)

  /** What every executor that holds copies is to do now. */
  def orders(query: String): Seq[CopyOrders] = {
    val of = find(query)
    val placed = for {
      (partition, executors) <- table.standbys(query).toSeq.sortBy(_._1)
      (executor, host) <- executors
    } yield (executor, host) -> of.order(partition)
    of.isWanted(placed.map { case ((executor, _), order) => (order.partition, executor) }.toSet)
    placed.groupMap(_._1)(_._2).toSeq.map { case ((executor, host), orders) => CopyOrders(executor, host, orders) }
  }

  def access(query: String): CheckpointAccess = find(query).access

  def stop(): Unit = {
    thread.shutdownNow()
    watched.values().asScala.foreach(_.isOver = true)
    watched.values().asScala.foreach(_.stopReplica())
  }

  private def find(query: String): Watched =
    Option(watched.get(query)).getOrElse(throw new IllegalStateException(s"the query $query does not run any more"))

  private def tend(): Unit = watched.asScala.foreach { case (query, of) =>
    if (of.isOver || !table.wantsStandbys(query)) of.stopReplica()
    else if (of.version >= 0) of.startReplica()
    of.news().foreach(bridge.tell(_))
    if (of.isOver) watched.remove(query, of)
  }
}

object Standbys {
  private val TendMs = 500L
  private val LongestWaitMs = 1000L
  private val LookMs = 50L // a new plan comes without a word to who waits
  private[mooring] val RestartNanos = TimeUnit.SECONDS.toNanos(10)
  private[mooring] val MostCommits = 1000
}

/** One run of a watched query: which versions it has committed, and how the copies of them stand. */
private final class Watched(val query: String, val run: String, operators: Seq[OperatorFacts], before: Watched) {
  @volatile var isOver = false
  @volatile var version: Long = -1
  private val door = StreamDoors.query(query)
  private val commits = new java.util.TreeMap[Long, Long]() // version -> when it was committed, in milliseconds
  private var ids = (-1L, Map.empty[Long, Array[Array[String]]]) // of one version: operator, partition, store
  private var copies = Map.empty[(Int, String), CopyState] // by partition and executor
  private var fetched = Map.empty[(Int, String), Long] // bytes since the last news
  private var isNews = false
  private var replica = Option(before).flatMap(_.handOver())
  private var startAfter = System.nanoTime()

  lazy val access: CheckpointAccess = running.checkpointAccess

  private def running = door.getOrElse(throw new IllegalStateException(s"the query $query does not run any more"))

  def committed(newest: Long): Unit = synchronized {
    if (newest > version) {
      commits.put(newest, System.currentTimeMillis())
      if (commits.size > Standbys.MostCommits) commits.pollFirstEntry()
      version = newest
      isNews = copies.nonEmpty
      notifyAll()
    }
  }

  /** The newest version of all stores of a partition. Reads the checkpoint's commit log once for each version. */
  def order(partition: Int): CopyOrder = synchronized {
    if (ids._1 != version) ids = (version, running.stateIds(version - 1))
    CopyOrder(partition, version, for {
      operator <- operators if partition < operator.partitions
      (store, index) <- operator.stores.zipWithIndex
    } yield StoreVersion(operator.directory(partition, store), version,
      ids._2.get(operator.id).flatMap(_.lift(partition)).flatMap(_.lift(index))))
  }

  /** Forgets the copies that nobody is to hold any more. */
  def isWanted(now: Set[(Int, String)]): Unit = synchronized {
    copies = copies.filter { case (key, _) => now(key) } ++ now.diff(copies.keySet).map(key => key -> CopyState(key._1, -1, 0))
    isNews = true
  }

  def copyMade(executor: String, copy: CopyState, bytes: Long): Unit = synchronized {
    val key = (copy.partition, executor)
    if (copies.get(key).exists(_.version <= copy.version)) {
      copies += key -> copy
      fetched += key -> (fetched.getOrElse(key, 0L) + bytes)
      isNews = true
    }
  }

  /** How the copies stand, when that has changed since the last call. */
  def news(): Option[Map[String, Any]] = synchronized {
    Option.when(isNews) {
      isNews = false
      val now = System.currentTimeMillis()
      val states = copies.toSeq.sortBy(_._1).map { case (key @ (partition, executor), copy) =>
        Map("partition" -> partition, "executor" -> executor, "version" -> copy.version, "bytes" -> copy.bytes,
          "lag-ms" -> lagMs(copy, now), "fetched-bytes" -> fetched.getOrElse(key, 0L))
      }
      fetched = Map.empty
      Map("event" -> "CopiesSeen", "query" -> query, "version" -> version, "copies" -> states)
    }
  }

  /** For how long there has been a version that the copy has not. */
  private def lagMs(copy: CopyState, now: Long): Long =
    Option(commits.higherEntry(copy.version)).fold(0L)(first => math.max(0, now - first.getValue))

  // On the thread that tends the replica queries

  private def handOver(): Option[Replica] = synchronized {
    val left = replica
    replica = None
    left
  }

  def startReplica(): Unit = {
    for (ended <- replica if !ended.isActive) {
      for (why <- ended.failure) Say.once(s"replica-$query-${why.getClass.getName}",
        s"the copies of query $query are not brought up to date now ($why): tried again in 10 s")
      stopReplica()
      startAfter = System.nanoTime() + Standbys.RestartNanos
    }
    if (replica.isEmpty && System.nanoTime() >= startAfter) {
      startAfter = System.nanoTime() + Standbys.RestartNanos
      replica = Some(running.replicate("mooring-standby", StandbySource.Query))
    }
  }

  def stopReplica(): Unit = handOver().foreach { ending =>
    try ending.stop()
    catch { case NonFatal(e) => Say.once(s"replica-stop-$query", s"the replica query of $query did not stop ($e)") }
  }
}
