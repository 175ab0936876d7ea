package io.mooring.standby

import java.util.concurrent.{ConcurrentHashMap, Executors, ScheduledExecutorService, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.agent.Bridge
import io.mooring.common.{FailOpen, Daemon, Names, Log}
import io.mooring.placement.PlacementTable
import org.apache.spark.shims.Signals
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, KeyCounts, OperatorFacts, Replica, ReplicaSession}

/**
 * The replica queries of this driver: one for each running query whose state the plan wants copied.
 *
 * Threads: a thread of this object starts and stops the replica queries, and tells the agent the state of the copies. It runs
 * from the first plan with copies on. Spark's listener threads and RPC threads only note events here. The threads of the replica queries
 * wait for rounds (`awaitRound`) and make orders (`orders`). Depends on `ReplicaSession`, without which there is no hot standby. Event:
 * CopiesSeen.
 */
final class Standbys(table: PlacementTable, bridge: Bridge) {
  private val copiedQueries = new ConcurrentHashMap[String, CopiedQuery]() // by query id

  // Used by the thread of this object alone
  private val replicas = mutable.Map[String, Replica]() // query id -> its replica query
  private val unwantedSince = mutable.Map[String, Long]() // query id -> since when the plan has no copies of it, by System.nanoTime
  private val startAfter = mutable.Map[String, Long]() // query id -> when its replica query may be started next, by System.nanoTime

  private lazy val session = new ReplicaSession(Standbys.StopMs)

  private var thread = Option.empty[ScheduledExecutorService]
  private var endOfJvm = Option.empty[AutoCloseable]
  private var stopping = Option.empty[Thread]
  private var isStopped = false

  /** A plan with copies has come. */
  def begin(): Unit = synchronized {
    if (thread.isEmpty && !isStopped) {
      val maintenance = Executors.newSingleThreadScheduledExecutor(Daemon.factory("mooring-standbys"))
      maintenance.scheduleWithFixedDelay(() => maintain(), 0, Standbys.MaintainMs, TimeUnit.MILLISECONDS)
      thread = Some(maintenance)
      // Once Spark stops the application, it may fail the next job of a replica query before that query is stopped.
      endOfJvm = FailOpen.otherwise("stop of the replica queries when the JVM ends", Option.empty[AutoCloseable])(Some(Signals.beforeEnd(() => stop())))
    }
  }

  /** A run of a query begins. Its first batch may come much later. */
  def starts(query: String, run: String, operators: Seq[OperatorFacts]): Unit = note(query, run, operators)(_.run == _.run)

  /** The first batch of a run was planned. */
  def planned(query: String, run: String, operators: Seq[OperatorFacts]): Unit = {
    note(query, run, operators)(_.isLike(_))
    Option(copiedQueries.get(query)).foreach(_.begins())
  }

  private def note(query: String, run: String, operators: Seq[OperatorFacts])(isKnown: (CopiedQuery, CopiedQuery) => Boolean): Unit = {
    val made = new CopiedQuery(query, run, operators.filter(_.stores.nonEmpty).distinctBy(_.id))
    copiedQueries.merge(query, made, (before, now) => if (isKnown(before, now)) before else now)
    ()
  }

  /** Sends the state of all copies to the agent again, whether or not it has changed. */
  def reportAgain(): Unit = copiedQueries.values.forEach(_.reportAgain())

  /** A batch was committed: the copies are to be brought to its state. */
  def committed(query: String, batch: Long, beganMs: Long, tookMs: Long): Unit =
    Option(copiedQueries.get(query)).foreach(_.committed(batch + 1, beganMs, tookMs))

  /** The run has ended. The thread of this object stops its replica query, and forgets the run then. */
  def ended(query: String, run: String): Unit = for (copiedQuery <- Option(copiedQueries.get(query)) if copiedQuery.run == run) {
    copiedQuery.isOver = true
    if (synchronized(thread.isEmpty)) copiedQueries.remove(query, copiedQuery)
  }

  def copyMade(executor: String, query: String, copy: CopyState, fetched: Long): Unit =
    Option(copiedQueries.get(query)).foreach(_.copyMade(executor, copy, fetched))

  def copyFailed(executor: String, query: String, partition: Int, why: String): Unit =
    Option(copiedQueries.get(query)).foreach(_.copyFailed(executor, partition, why))

  /** The owner of a store has counted the keys of a version that it has written. The batch may still fail. */
  def keysCounted(query: String, version: Long, id: String, counts: KeyCounts): Unit =
    Option(copiedQueries.get(query)).foreach(_.keysCounted(version, id, counts))

  /** Blocks until there is a newer round than `last`, for a second at most. The newest round. */
  def awaitRound(query: String, last: Round): Round = {
    val copiedQuery = find(query)
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Standbys.LongestWaitMs)
    def newest = copiedQuery.round(table.standbys(query)).getOrElse(last)
    copiedQuery.synchronized {
      while (newest == last && deadline > System.nanoTime()) copiedQuery.wait(Standbys.LookMs)
      newest
    }
  }

  /**
   * The orders of a round. Orders go to executors that hold copies, and to executors that hold the copy of a task that they will run next.
   * An executor that held copies before, and holds none now, gets an empty list of orders.
   */
  def orders(query: String): Seq[CopyOrders] = {
    val (copiedQuery, holders) = (find(query), table.standbys(query))
    val ofHolders = for {
      (partition, executors) <- holders.toSeq.sortBy(_._1)
      order <- copiedQuery.order(partition).toSeq
      executor <- executors
    } yield executor -> order
    val ofCopiesAboutToBeUsed = for {
      (partition, executor) <- copiedQuery.copiesAboutToBeUsed(holders, table.preferred(query, _))
      order <- copiedQuery.order(partition).toSeq
    } yield executor -> order.copy(isAboutToBeUsed = true)
    val withoutCopies = copiedQuery.noteHolders(ofHolders.groupMap(_._1)(_._2.partition)).filter { case (id, _) => table.isUsable(id) }
    val now = (ofHolders ++ ofCopiesAboutToBeUsed).groupMap(_._1)(_._2)
    (now.toSeq ++ (withoutCopies -- now.keySet).map(_ -> Nil)).map { case ((executor, host), orders) => CopyOrders(executor, host, orders) }
  }

  /** The queries that any executor is to hold copies of. */
  def copied: Seq[String] =
    copiedQueries.asScala.collect { case (query, copiedQuery) if !copiedQuery.isOver && table.wantsStandbys(query) => query }.toSeq

  /** The queries that this executor is to hold copies of. */
  def copiedBy(executor: String): Seq[String] =
    copiedQueries.asScala.collect { case (query, copiedQuery) if !copiedQuery.isOver && table.wantsStandbys(query, executor) => query }.toSeq

  def access(query: String): CheckpointAccess = find(query).access

  /** Stops the replica queries, all at once. Blocks for five seconds at most. Several threads may call it when the application ends. */
  def stop(): Unit = {
    val ending = synchronized {
      isStopped = true
      endOfJvm.foreach(_.close())
      if (stopping.isEmpty) stopping = thread.map(maintenance => Daemon.start("mooring-standbys-stop")(stopReplicas(maintenance)))
      stopping
    }
    ending.foreach(_.join(Standbys.StopMs))
  }

  private def stopReplicas(maintenance: ScheduledExecutorService): Unit = {
    maintenance.shutdownNow()
    maintenance.awaitTermination(Standbys.StopMs, TimeUnit.MILLISECONDS) // its thread may be starting a replica query
    replicas.values.toSeq
      .map(replica => Daemon.start("mooring-standby-stop")(FailOpen.otherwise("end of the replica queries", ())(replica.stop())))
      .foreach(_.join(Standbys.StopMs))
  }

  private def find(query: String): CopiedQuery =
    Option(copiedQueries.get(query)).getOrElse(throw new IllegalStateException(s"the query $query does not run any more"))

  /** Called twice a second by the thread of this object. */
  private def maintain(): Unit = for ((query, copiedQuery) <- copiedQueries.asScala)
    FailOpen.forAWhile(s"standby of query $query", (), copiedQuery.isOver)(maintain(query, copiedQuery))

  private def maintain(query: String, copiedQuery: CopiedQuery): Unit = {
    // Read once: when the run ends meanwhile, the next call stops the query that this call starts.
    val isOver = copiedQuery.isOver
    if (table.wantsStandbys(query)) unwantedSince.remove(query)
    val unwanted = Option.unless(table.wantsStandbys(query))(unwantedSince.getOrElseUpdate(query, System.nanoTime())) // since when, if so
    if (isOver || unwanted.exists(!copiedQuery.mayHaveCopiesAboutToBeUsed(_))) stopReplica(query)
    else if (unwanted.isEmpty && copiedQuery.mayBegin) startReplica(query, copiedQuery)
    copiedQuery.copiesSeen().foreach(bridge.tell(_))
    if (isOver) {
      copiedQueries.remove(query, copiedQuery)
      startAfter.remove(query)
      unwantedSince.remove(query)
    }
  }

  private def startReplica(query: String, copiedQuery: CopiedQuery): Unit = {
    for (ended <- replicas.get(query) if !ended.isActive) {
      for (why <- ended.failure) Log.failed(s"replica-$query-${why.getClass.getName}", why, copiedQuery.isOver)(
        s"the copies of query $query are not brought up to date now ($why): tried again in 10 s")
      stopReplica(query)
    }
    val now = System.nanoTime()
    if (!replicas.contains(query) && startAfter.get(query).forall(_ - now <= 0)) {
      startAfter(query) = now + Standbys.RestartNanos
      replicas(query) = session.replicate(copiedQuery.query, copiedQuery.name, Names.StandbySource, Names.StandbyQuery)
    }
  }

  private def stopReplica(query: String): Unit = for (ending <- replicas.remove(query))
    try ending.stop()
    catch { case NonFatal(e) => Log.failed(s"replica-stop-$query", e)(s"the replica query of $query did not stop ($e)") }
}

object Standbys {
  private val MaintainMs = 500L
  private val StopMs = 5000L
  private val LongestWaitMs = 1000L
  private val LookMs = 50L // a new plan does not notify a thread that waits
  private val RestartNanos = TimeUnit.SECONDS.toNanos(10)
}
