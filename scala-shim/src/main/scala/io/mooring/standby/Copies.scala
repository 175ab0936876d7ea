package io.mooring.standby

import java.io.FileNotFoundException
import java.util.concurrent.{ConcurrentHashMap, LinkedBlockingQueue, Semaphore, ThreadPoolExecutor, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.common.{FailOpen, Daemon, Log, OnePerExecutor}
import io.mooring.localstore.HostStore
import io.mooring.reports.ExecutorReports
import io.mooring.restore.{Pace, StoreCopy, StoreVersion}
import org.apache.hadoop.fs.Path
import org.apache.spark.shims.{CpuThrottle, IdleWaitBudget}
import org.apache.spark.sql.execution.streaming.state.shims.CheckpointAccess

/**
 * An order to fetch a version of the copy of one task, which is all stores of one state partition.
 *
 * @param isAboutToBeUsed whether the task itself is to run here from the next batch on. Until the task comes, an open copy is then only
 *                        advanced, and a copy of plain files gets the files that are missing
 */
final case class CopyOrder(partition: Int, version: Long, stores: Seq[StoreVersion], isAboutToBeUsed: Boolean = false)

/** The state of one copy; `version` is the last complete version here, -1 for none. */
final case class CopyState(partition: Int, version: Long, bytes: Long)

/**
 * The copies that this executor keeps of the state of tasks that run elsewhere.
 *
 * A `TaskCopy` is the copy of one task. It has a `StoreCopy` for each state store of the task. A `StoreCopy` has the files of the store,
 * and an `OpenCopy`. The `OpenCopy` (`InstanceOfCopy`) has an `OpenStore`, the RocksDB instance, while the copy is open.
 *
 * Threads: tasks of the replica query leave orders (`order`) and return at once, so they hold a slot only for a moment. Four threads
 * of this object carry the orders out. Tasks that open stores call `taskCame`, and the thread of `VersionWatch` calls `keepOnly`.
 * Without these copies there is no hot standby, and no processor moves warm: a task that moves fetches its state from the checkpoint.
 *
 * @param mostOpen       how many copies are kept open; the others are plain files
 * @param throttledForMs how long one new copy is made slowly, while other new copies wait for their turn. Each of these has the same time
 *                       in its turn. But a copy whose first order is twice this time old is made at full speed
 */
final class Copies(store: HostStore, bytesPerSecond: Long, mostOpen: Int, throttledForMs: Long) {
  private val pace = new Pace(bytesPerSecond)
  private val slowTurn = new Semaphore(1) // held by the one new copy that is made slowly
  private val openSlots = new Semaphore(mostOpen)
  private val openingWaits = new IdleWaitBudget(throttledForMs / 2) // the waits before copies are opened
  private val held = new ConcurrentHashMap[(String, Int), TaskCopy]() // by query and partition
  private val unwanted = new ConcurrentHashMap[TaskCopy, Long]() // copies that are not wanted any more -> since when, by System.nanoTime

  private val threads = new ThreadPoolExecutor(Copies.Threads, Copies.Threads, 10, TimeUnit.SECONDS, new LinkedBlockingQueue[Runnable],
    Daemon.factory("mooring-standby-copy"))
  threads.allowCoreThreadTimeOut(true)

  /**
   * Takes all orders of a query for this executor. Copies of other tasks of the query are not held any more. Returns the states of the
   * ordered copies.
   */
  def order(query: String, orders: Seq[CopyOrder], access: CheckpointAccess): Seq[CopyState] = {
    val (ofCopiesAboutToBeUsed, ofHeldCopies) = orders.partition(_.isAboutToBeUsed)
    val wanted = ofHeldCopies.map(_.partition).toSet
    held.asScala.foreach { case (key @ (ofQuery, partition), copy) =>
      // The task may run here from the next batch on. So the copy stays open for a while.
      if (ofQuery == query && !wanted(partition) && held.remove(key, copy)) unwanted.put(copy, System.nanoTime())
    }
    for (order <- ofCopiesAboutToBeUsed; copy <- unwanted.keySet.asScala if copy.isOf(query, order.partition)) {
      unwanted.replace(copy, System.nanoTime())
      copy.order(order, access)
    }
    ofHeldCopies.map { order =>
      val copy = held.computeIfAbsent((query, order.partition), _ => new TaskCopy(query, order.partition))
      copy.order(order, access)
      copy.state
    }
  }

  /**
   * A task on this executor opens this version of the store. For ten seconds, no order for this version or an earlier one is carried
   * out.
   */
  def taskCame(directory: String, version: Long): Unit = {
    held.values.forEach(_.taskCame(directory, version))
    unwanted.keySet.forEach(_.taskCame(directory, version))
  }

  /**
   * Holds copies of these queries only. Copies that were ordered in the last ten seconds stay, as the driver may have sent the list before
   * their order. Closes copies that have waited for a minute to be taken over. Called about once a second.
   */
  def keepOnly(queries: Set[String]): Unit = {
    val now = System.nanoTime()
    held.asScala.foreach { case (key @ (query, _), copy) =>
      if (!queries(query) && now - copy.orderedAt > Copies.JustNowNanos && held.remove(key, copy)) unwanted.put(copy, now)
    }
    unwanted.asScala.foreach { case (copy, since) =>
      if (now - since > Copies.TakeOverNanos && unwanted.remove(copy, since))
        threads.execute(() => FailOpen.otherwise("closing a copy", ())(copy.close()))
    }
  }

  /** Ends the threads. Files that are being fetched are not kept. */
  def stop(): Unit = {
    threads.shutdownNow()
    (held.values.asScala ++ unwanted.keySet.asScala).foreach(_.close())
  }

  /** The copy of one task. At most one thread works on it at a time. */
  private final class TaskCopy(query: String, partition: Int) {
    @volatile private var isOver = false
    private val wantedSince = System.nanoTime()
    private var throttle = Option.empty[CpuThrottle] // made when the copy has its turn
    @volatile private var stores = Map.empty[String, StoreCopy]
    private var accessId = -1L // the access with which `stores` were made
    private var lastDone = Option.empty[CopyOrder]
    private var hasMissedFiles = false // whether the checkpoint lacked a file when the last order was carried out
    private var next = Option.empty[(CopyOrder, CheckpointAccess)]
    private var isBusy = false
    @volatile var state: CopyState = CopyState(partition, -1, 0)
    @volatile var orderedAt: Long = System.nanoTime()
    private val lastCommit = new LastCommit
    @volatile private var directories = Set.empty[String] // of the last order's stores
    // directory -> the version that a task here has opened last, and when
    private val lastOpenedByTask = new ConcurrentHashMap[String, (Long, Long)]()

    def isOf(itsQuery: String, itsPartition: Int): Boolean = itsQuery == query && itsPartition == partition

    /** Takes an order; it replaces an order that waits. An order that is done already is only reported again. */
    def order(newer: CopyOrder, access: CheckpointAccess): Unit = synchronized {
      orderedAt = System.nanoTime()
      lastCommit.note(newer.version)
      directories = newer.stores.map(_.directory).toSet
      if (lastDone.contains(newer)) ExecutorReports.copyMade(query, partition, state.version, state.bytes, fetched = 0)
      else {
        next = Some((newer, access))
        if (!isBusy) {
          isBusy = true
          threads.execute(() => work())
        }
      }
    }

    def taskCame(directory: String, version: Long): Unit =
      if (directories(directory)) lastOpenedByTask.put(directory, version -> System.nanoTime())

    private def take(): Option[(CopyOrder, CheckpointAccess)] = synchronized {
      val taken = next
      next = None
      isBusy = taken.isDefined
      taken
    }

    private def putBack(order: CopyOrder, access: CheckpointAccess): Unit = synchronized {
      if (next.isEmpty) next = Some((order, access))
    }

    /** Closes all open instances. An instance that is being opened just now is closed by the thread that opens it. */
    def close(): Unit = {
      isOver = true
      closeStores()
    }

    private def closeStores(): Unit = stores.values.foreach(_.close())

    private def dropStores(): Unit = {
      closeStores()
      stores = Map.empty
    }

    /** Whether the copy is wanted here, and no task here has opened any of the ordered stores just now. */
    private def isHeld(order: CopyOrder): Boolean = (held.get((query, partition)) eq this) && !order.stores.exists(isOpenedByTask)

    /** Whether a task here has opened this version, or a newer one, in the last ten seconds. */
    private def isOpenedByTask(wanted: StoreVersion): Boolean = Option(lastOpenedByTask.get(wanted.directory))
      .exists { case (version, at) => wanted.version <= version && System.nanoTime() - at < Copies.JustNowNanos }

    private def work(): Unit = take().foreach { case (order, access) =>
      if (order.isAboutToBeUsed) advanceBeforeUse(order, access) else if (isHeld(order)) carryOut(order, access)
      if (isOver) closeStores() // `close` may have been called meanwhile
      if (!threads.isShutdown) threads.execute(() => work()) // at the end of the queue, so that all copies have their turn
    }

    private def carryOut(order: CopyOrder, access: CheckpointAccess): Unit = {
      val began = System.nanoTime()
      try {
        val atFullSpeed = throttle.fold(fullSpeedInMs <= 0)(_.isOver)
        if (state.version >= 0 || atFullSpeed) fetch(order, access)
        else if (slowTurn.tryAcquire(Copies.TurnMs, TimeUnit.MILLISECONDS)) try fetch(order, access) finally slowTurn.release()
        else putBack(order, access)
      } catch {
        // Maintenance may have removed the version: the next order is for a newer one. When that one fails too, and soon, the file is
        // lost. An attempt that takes long may miss files each time that are gone before it comes to them.
        case _: FileNotFoundException if !hasMissedFiles || System.nanoTime() - began > Copies.LongAttemptNanos => hasMissedFiles = true
        case _: InterruptedException | _: java.nio.channels.ClosedByInterruptException => // `stop` ends the threads
        case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] =>
          Log.failed(s"copy-$query-${e.getClass.getName}", e)(
            s"a copy of partition $partition could not be brought to version ${order.version} ($e): tried again soon")
          ExecutorReports.copyFailed(query, partition, Copies.inShort(e))
          if (store.lackOfRoom() > 0) dropStores() // while a copy is open, removed files still take up the disk
      }
    }

    /** In how many milliseconds a copy that has had no turn is made at full speed. */
    private def fullSpeedInMs: Long = 2 * throttledForMs - (System.nanoTime() - wantedSince) / 1000000

    private def advanceBeforeUse(order: CopyOrder, access: CheckpointAccess): Unit =
      if (accessId == access.id) for (wanted <- order.stores; copy <- stores.get(wanted.directory) if !isOver && !isOpenedByTask(wanted))
        try copy.advanceBeforeUse(wanted)
        catch {
          case _: FileNotFoundException => // maintenance has removed the version: the task opens a newer one
          // `stop` ends the threads; or a task that has fetched the files itself was killed
          case _: InterruptedException | _: java.nio.channels.ClosedByInterruptException =>
          case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // the task reads the version itself
            Log.failed(s"before-use-$query-${e.getClass.getName}", e)(
              s"what was committed last is not at ${wanted.directory} before its task ($e)")
        }

    private def fetch(order: CopyOrder, access: CheckpointAccess): Unit = {
      if (accessId != access.id) dropStores()
      accessId = access.id
      val fetched = order.stores.map(wanted => copyOf(wanted, access).fetch(wanted, isHeld(order))).sum
      state = CopyState(partition, order.version, stores.values.map(_.bytes).sum)
      hasMissedFiles = false
      synchronized { lastDone = Some(order) }
      ExecutorReports.copyMade(query, partition, state.version, state.bytes, fetched)
    }

    private def copyOf(wanted: StoreVersion, access: CheckpointAccess): StoreCopy = stores.getOrElse(wanted.directory, {
      val directory = new Path(wanted.directory)
      val hostFiles = store.filesOf(directory).getOrElse(throw new IllegalArgumentException(s"$directory is not where Spark keeps state"))
      throttle = throttle.orElse(Some(new CpuThrottle(math.min(throttledForMs, fullSpeedInMs))))
      val instance = new InstanceOfCopy(directory, partition, access, openSlots, openingWaits, lastCommit)
      val made = new StoreCopy(directory, hostFiles, access, pace, instance, throttle = throttle)
      stores += wanted.directory -> made
      made
    })
  }
}

/** The Copies of an executor. There are none where the host's store can not be used. */
object Copies extends OnePerExecutor[Copies](_.stop()) {
  private val TakeOverNanos = TimeUnit.MINUTES.toNanos(1)
  private val JustNowNanos = TimeUnit.SECONDS.toNanos(10)
  private val LongAttemptNanos = TimeUnit.SECONDS.toNanos(10)
  private val Threads = 4 // they wait for the checkpoint most of the time
  private val TurnMs = 100L // how long a new copy waits for its turn, before copies that only have to be advanced go first

  private val MostCharacters = 200

  /** One line for an operator. User names, passwords and keys are cut out of addresses. */
  private def inShort(why: Throwable): String =
    why.toString.linesIterator.nextOption().getOrElse("").replaceAll("//[^/\\s]*@", "//").replaceAll("\\?\\S*", "").take(MostCharacters)
}
