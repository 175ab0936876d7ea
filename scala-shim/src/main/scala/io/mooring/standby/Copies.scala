package io.mooring.standby

import java.io.FileNotFoundException
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, Semaphore, ThreadPoolExecutor, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.common.{FailOpen, Daemon, Log}
import io.mooring.localstore.HostStore
import io.mooring.reports.ExecutorReports
import io.mooring.restore.{Pace, StoreCopy, StoreVersion}
import org.apache.hadoop.fs.Path
import org.apache.spark.shims.{CpuThrottle, IdleWaitBudget}
import org.apache.spark.sql.execution.streaming.state.shims.CheckpointAccess

/**
 * The version to which the copy of one task is to be brought: all stores of one state partition. `isOfArrival` where the
 * task is to run from the next batch on: what is open goes on, until it is taken over, and nothing else is done for it.
 */
final case class CopyOrder(partition: Int, version: Long, stores: Seq[StoreVersion], isOfArrival: Boolean = false)

/** How one copy stands; `version` is the last that is whole here, -1 for none. */
final case class CopyState(partition: Int, version: Long, bytes: Long)

/**
 * The copies that this executor keeps for tasks that run elsewhere. They are brought up to date by threads of their own,
 * so the replica query's tasks hold a slot just for as long as it takes to leave an order here.
 *
 * @param unhurriedForMs for so long one is made while others that are new wait, with waits and rests; of those that wait
 *                       each for as long in its turn, but none later than twice that after its first order
 */
final class Copies(store: HostStore, bytesPerSecond: Long, mostOpen: Int, unhurriedForMs: Long) {
  private val pace = new Pace(bytesPerSecond)
  private val turn = new Semaphore(1) // of those that are made anew and not in a hurry
  private val room = new Semaphore(mostOpen)
  private val patience = new IdleWaitBudget(unhurriedForMs / 2) // before a copy is opened
  private val held = new ConcurrentHashMap[(String, Int), TaskCopy]()
  private val leaving = new ConcurrentHashMap[TaskCopy, Long]() // their tasks may come, or nobody wants them -> since when, by System.nanoTime

  private val threads = new ThreadPoolExecutor(Copies.Threads, Copies.Threads, 10, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable],
    Daemon.factory("mooring-standby-copy"))
  threads.allowCoreThreadTimeOut(true)

  /** Takes orders for some tasks of a query, of which it is to hold no others; answers how those stand now. */
  def order(query: String, orders: Seq[CopyOrder], access: CheckpointAccess): Seq[CopyState] = {
    val (arrivals, standing) = orders.partition(_.isOfArrival)
    val wanted = standing.map(_.partition).toSet
    held.asScala.foreach { case (key @ (ofQuery, partition), copy) =>
      // It may be none any more because the task runs here from the next batch on, which is to find it open.
      if (ofQuery == query && !wanted(partition) && held.remove(key, copy)) leaving.put(copy, System.nanoTime())
    }
    for (order <- arrivals; copy <- leaving.keySet.asScala if copy.isOf(query, order.partition)) {
      leaving.replace(copy, System.nanoTime())
      copy.order(order, access)
    }
    standing.map { order =>
      val copy = held.computeIfAbsent((query, order.partition), _ => new TaskCopy(query, order.partition))
      copy.order(order, access)
      copy.state
    }
  }

  /** A task opens the store of this directory here: orders for that version, or earlier ones, come too late for now. */
  def taskCame(directory: String, version: Long): Unit = held.values.forEach(_.taskCame(directory, version))

  /**
   * Lets go of the copies of other queries, unless they were ordered just now: the driver may have answered before. What
   * has waited for long enough to be taken over is ended, by a thread of the copies'. Called again and again.
   */
  def keepOnly(queries: Set[String]): Unit = {
    val now = System.nanoTime()
    held.asScala.foreach { case (key @ (query, _), copy) =>
      if (!queries(query) && now - copy.orderedAt > Copies.JustNowNanos && held.remove(key, copy)) leaving.put(copy, now)
    }
    leaving.asScala.foreach { case (copy, since) =>
      if (now - since > Copies.TakeOverNanos && leaving.remove(copy, since))
        threads.execute(() => FailOpen.otherwise("closing a copy", ())(copy.close()))
    }
  }

  /** Ends the threads; a file that is being fetched is thrown away. */
  def stop(): Unit = {
    threads.shutdownNow()
    (held.values.asScala ++ leaving.keySet.asScala).foreach(_.close())
  }

  private final class TaskCopy(query: String, partition: Int) {
    @volatile private var isOver = false
    private val wantedSince = System.nanoTime()
    private var rests = Option.empty[CpuThrottle] // from its turn on
    @volatile private var stores = Map.empty[String, StoreCopy]
    private var accessId = -1L // of the access that the stores were made with
    private var done = Option.empty[CopyOrder]
    private var next = Option.empty[(CopyOrder, CheckpointAccess)]
    private var isBusy = false
    @volatile var state: CopyState = CopyState(partition, -1, 0)
    @volatile var orderedAt: Long = System.nanoTime()
    private val commits = new Commits
    @volatile private var directories = Set.empty[String] // of the stores in the last order
    @volatile private var opened = Option.empty[(Long, Long)] // the version that a task has opened here last, and when

    def isOf(itsQuery: String, itsPartition: Int): Boolean = itsQuery == query && itsPartition == partition

    /** Replaces an order that waits. One that is done already is only answered anew. */
    def order(newer: CopyOrder, access: CheckpointAccess): Unit = synchronized {
      orderedAt = System.nanoTime()
      commits.heard(newer.version)
      directories = newer.stores.map(_.directory).toSet
      if (done.contains(newer)) ExecutorReports.copyMade(query, partition, state.version, state.bytes, fetched = 0)
      else {
        next = Some((newer, access))
        if (!isBusy) {
          isBusy = true
          threads.execute(() => work())
        }
      }
    }

    def taskCame(directory: String, version: Long): Unit =
      if (directories(directory)) opened = Some(version -> System.nanoTime())

    private def take(): Option[(CopyOrder, CheckpointAccess)] = synchronized {
      val taken = next
      next = None
      isBusy = taken.isDefined
      taken
    }

    private def putBack(order: CopyOrder, access: CheckpointAccess): Unit = synchronized {
      if (next.isEmpty) next = Some((order, access))
    }

    /** Ends what is open, also what is being opened. */
    def close(): Unit = {
      isOver = true
      closeStores()
    }

    private def closeStores(): Unit = stores.values.foreach(_.close())

    private def beginAnew(): Unit = {
      closeStores()
      stores = Map.empty
    }

    private def isHeld(order: CopyOrder): Boolean = (held.get((query, partition)) eq this) &&
      !opened.exists { case (version, at) => order.version <= version && System.nanoTime() - at < Copies.JustNowNanos }

    private def work(): Unit = take().foreach { case (order, access) =>
      if (order.isOfArrival) goOn(order, access) else if (isHeld(order)) carryOut(order, access)
      if (isOver) closeStores() // one may have been made since
      if (!threads.isShutdown) threads.execute(() => work()) // behind the copies that wait, so that all come on
    }

    private def carryOut(order: CopyOrder, access: CheckpointAccess): Unit =
      try {
        val isInAHurry = rests.fold(hurriesInMs <= 0)(_.areOver)
        if (state.version >= 0 || isInAHurry) bring(order, access)
        else if (turn.tryAcquire(Copies.TurnMs, TimeUnit.MILLISECONDS)) try bring(order, access) finally turn.release()
        else putBack(order, access)
      } catch {
        case _: FileNotFoundException => // the owner has gone on and cleaned up: the next order is for a newer version
        case _: InterruptedException | _: java.nio.channels.ClosedByInterruptException => threads.shutdown()
        case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] =>
          Log.failed(s"copy-$query-${e.getClass.getName}", e)(
            s"a copy of partition $partition could not be brought to version ${order.version} ($e): tried again soon")
          ExecutorReports.copyFailed(query, partition, Copies.inShort(e))
          if (store.lackOfRoom() > 0) beginAnew() // an open copy holds on to files that are to go
      }

    private def hurriesInMs: Long = 2 * unhurriedForMs - (System.nanoTime() - wantedSince) / 1000000

    private def goOn(order: CopyOrder, access: CheckpointAccess): Unit =
      if (accessId == access.id) for (wanted <- order.stores; copy <- stores.get(wanted.directory))
        try copy.goOn(wanted)
        catch {
          case _: InterruptedException | _: java.nio.channels.ClosedByInterruptException => threads.shutdown()
          case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // the task reads it itself
            Log.failed(s"arrival-$query-${e.getClass.getName}", e)(s"what was committed last is not at ${wanted.directory} before its task ($e)")
        }

    private def bring(order: CopyOrder, access: CheckpointAccess): Unit = {
      if (accessId != access.id) beginAnew()
      accessId = access.id
      val fetched = order.stores.map(wanted => copyOf(wanted, access).bringTo(wanted, isHeld(order))).sum
      state = CopyState(partition, order.version, stores.values.map(_.bytes).sum)
      synchronized { done = Some(order) }
      ExecutorReports.copyMade(query, partition, state.version, state.bytes, fetched)
    }

    private def copyOf(wanted: StoreVersion, access: CheckpointAccess): StoreCopy = stores.getOrElse(wanted.directory, {
      val directory = new Path(wanted.directory)
      val shelf = store.shelf(directory).getOrElse(throw new IllegalArgumentException(s"$directory is not where Spark keeps state"))
      rests = rests.orElse(Some(new CpuThrottle(math.min(unhurriedForMs, hurriesInMs))))
      val instance = new InstanceOfCopy(directory, partition, access, room, patience, commits)
      val made = new StoreCopy(directory, shelf, access, pace, instance, rests = rests)
      stores += wanted.directory -> made
      made
    })
  }
}

object Copies {
  private val TakeOverNanos = TimeUnit.MINUTES.toNanos(1)
  private val JustNowNanos = TimeUnit.SECONDS.toNanos(10)
  private val Threads = 4 // they wait for the checkpoint most of the time
  private val TurnMs = 100L // then those that only have to be brought on are let before

  private val MostWords = 200

  /** For an answer to an operator: one line, without what an address may tell of who may use it. */
  private def inShort(why: Throwable): String =
    why.toString.linesIterator.nextOption().getOrElse("").replaceAll("//[^/\\s]*@", "//").replaceAll("\\?\\S*", "").take(MostWords)

  @volatile private var ofThis: Option[Copies] = None

  /** None in a driver, where the host store can not be used, and where no copies are wanted. */
  def ofThisExecutor: Option[Copies] = ofThis

  private[mooring] def use(copies: Option[Copies]): Unit = {
    ofThis.foreach(_.stop())
    ofThis = copies
  }
}
