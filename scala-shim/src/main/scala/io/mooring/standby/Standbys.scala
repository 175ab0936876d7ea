package io.mooring.standby

import java.util.concurrent.{ConcurrentHashMap, Executors, ScheduledExecutorService, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Daemon, Names, Log}
import io.mooring.placement.PlacementTable
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, KeyCounts, OperatorFacts, Replica, ReplicaSession}

/**
 * The replica queries of this driver: one for each running query of which the plan names copies. A thread of its own,
 * from the first plan that names any, starts and stops them, and tells the agent how the copies stand; Spark's threads
 * only leave word here.
 */
final class Standbys(table: PlacementTable, bridge: Bridge) {
  private val watched = new ConcurrentHashMap[String, Watched]() // query id -> what is known of its run

  // Of the tending thread alone
  private val replicas = mutable.Map[String, Replica]() // query id -> its replica query
  private val unwantedSince = mutable.Map[String, Long]() // query id -> when the plan had no more copies of it, by System.nanoTime
  private val startAfter = mutable.Map[String, Long]() // query id -> the next attempt, by System.nanoTime

  private lazy val session = new ReplicaSession(Standbys.StopMs)

  private var thread = Option.empty[ScheduledExecutorService]
  private var isStopped = false

  /** There is a plan with copies. */
  def begin(): Unit = synchronized {
    if (thread.isEmpty && !isStopped) {
      val tending = Executors.newSingleThreadScheduledExecutor(Daemon.factory("mooring-standbys"))
      tending.scheduleWithFixedDelay(() => tend(), 0, Standbys.TendMs, TimeUnit.MILLISECONDS)
      thread = Some(tending)
    }
  }

  /** A run of a query begins, from the state that the batch before has left. It may have no batch for long. */
  def starts(query: String, run: String, operators: Seq[OperatorFacts]): Unit = watch(query, run, operators)(_.run == _.run)

  /** Its first batch was planned. */
  def planned(query: String, run: String, operators: Seq[OperatorFacts]): Unit = {
    watch(query, run, operators)(_.isLike(_))
    Option(watched.get(query)).foreach(_.begins())
  }

  private def watch(query: String, run: String, operators: Seq[OperatorFacts])(isKnown: (Watched, Watched) => Boolean): Unit = {
    val of = new Watched(query, run, operators.filter(_.stores.nonEmpty).distinctBy(_.id))
    watched.merge(query, of, (before, now) => if (isKnown(before, now)) before else now)
    ()
  }

  /** Has the agent told how the copies stand, whether or not that has changed. */
  def tellAgain(): Unit = watched.values.forEach(_.tellAgain())

  /** A batch is committed: its state is what the copies are to hold. */
  def committed(query: String, batch: Long, beganMs: Long, tookMs: Long): Unit =
    Option(watched.get(query)).foreach(_.committed(batch + 1, beganMs, tookMs))

  /** Whoever tends ends its replica query first. */
  def ended(query: String, run: String): Unit = for (of <- Option(watched.get(query)) if of.run == run) {
    of.isOver = true
    if (synchronized(thread.isEmpty)) watched.remove(query, of)
  }

  def copyMade(executor: String, query: String, copy: CopyState, fetched: Long): Unit =
    Option(watched.get(query)).foreach(_.copyMade(executor, copy, fetched))

  def copyFailed(executor: String, query: String, partition: Int, why: String): Unit =
    Option(watched.get(query)).foreach(_.copyFailed(executor, partition, why))

  /** What the owner of a store says of a version that it has just committed, and that may come to nothing. */
  def keysCounted(query: String, version: Long, id: String, counts: KeyCounts): Unit =
    Option(watched.get(query)).foreach(_.keysCounted(version, id, counts))

  /** The newest round that there is, once it is another than `last`; `last` after a second. */
  def awaitRound(query: String, last: Round): Round = {
    val of = find(query)
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Standbys.LongestWaitMs)
    def newest = of.round(table.standbys(query)).getOrElse(last)
    of.synchronized {
      while (newest == last && deadline > System.nanoTime()) of.wait(Standbys.LookMs)
      newest
    }
  }

  /**
   * What every executor that holds copies is to do now, or is about to run their tasks; nothing for others that have held
   * some until now.
   */
  def orders(query: String): Seq[CopyOrders] = {
    val (of, holders) = (find(query), table.standbys(query))
    val placed = for {
      (partition, executors) <- holders.toSeq.sortBy(_._1)
      order <- of.order(partition).toSeq
      executor <- executors
    } yield executor -> order
    val arrivals = for {
      (partition, executor) <- of.arrivals(holders, table.preferred(query, _))
      order <- of.order(partition).toSeq
    } yield executor -> order.copy(isOfArrival = true)
    val relieved = of.holds(placed.groupMap(_._1)(_._2.partition)).filter { case (id, _) => table.isUsable(id) }
    val now = (placed ++ arrivals).groupMap(_._1)(_._2)
    (now.toSeq ++ (relieved -- now.keySet).map(_ -> Nil)).map { case ((executor, host), orders) => CopyOrders(executor, host, orders) }
  }

  /** The queries of which anybody is to hold copies. */
  def copied: Seq[String] = watched.asScala.collect { case (query, of) if !of.isOver && table.wantsStandbys(query) => query }.toSeq

  /** The queries of which this executor is to hold copies. */
  def copiedBy(executor: String): Seq[String] =
    watched.asScala.collect { case (query, of) if !of.isOver && table.wantsStandbys(query, executor) => query }.toSeq

  def access(query: String): CheckpointAccess = find(query).access

  /** Stops the replica queries, and does not wait for long for one that does not end. */
  def stop(): Unit = {
    val tending = synchronized {
      isStopped = true
      thread
    }
    for (ending <- tending) {
      ending.shutdownNow()
      Daemon.start("mooring-standbys-stop")(FailOpen.otherwise("end of the replica queries", ())(replicas.values.foreach(_.stop())))
        .join(Standbys.StopMs)
    }
  }

  private def find(query: String): Watched =
    Option(watched.get(query)).getOrElse(throw new IllegalStateException(s"the query $query does not run any more"))

  private def tend(): Unit = watched.asScala.foreach { case (query, of) => FailOpen.forAWhile(s"standby of query $query", (), of.isOver) {
    val isOver = of.isOver // once: what is started now is stopped at the next look
    if (table.wantsStandbys(query)) unwantedSince.remove(query)
    val since = Option.unless(table.wantsStandbys(query))(unwantedSince.getOrElseUpdate(query, System.nanoTime()))
    if (isOver || since.exists(!of.isAwaited(_))) stopReplica(query)
    else if (since.isEmpty && of.isDue) startReplica(query, of)
    of.news().foreach(bridge.tell(_))
    if (isOver) {
      watched.remove(query, of)
      startAfter.remove(query)
      unwantedSince.remove(query)
    }
  }}

  private def startReplica(query: String, of: Watched): Unit = {
    for (ended <- replicas.get(query) if !ended.isActive) {
      for (why <- ended.failure) Log.failed(s"replica-$query-${why.getClass.getName}", why, of.isOver)(
        s"the copies of query $query are not brought up to date now ($why): tried again in 10 s")
      stopReplica(query)
    }
    val now = System.nanoTime()
    if (!replicas.contains(query) && startAfter.get(query).forall(_ - now <= 0)) {
      startAfter(query) = now + Standbys.RestartNanos
      replicas(query) = session.replicate(of.query, of.name, Names.StandbySource, Names.StandbyQuery)
    }
  }

  private def stopReplica(query: String): Unit = for (ending <- replicas.remove(query))
    try ending.stop()
    catch { case NonFatal(e) => Log.failed(s"replica-stop-$query", e)(s"the replica query of $query did not stop ($e)") }
}

object Standbys {
  private val TendMs = 500L
  private val StopMs = 5000L
  private val LongestWaitMs = 1000L
  private val LookMs = 50L // a new plan comes without a word to who waits
  private val RestartNanos = TimeUnit.SECONDS.toNanos(10)
}
