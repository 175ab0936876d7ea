package io.mooring.restore

import java.util.concurrent.{ConcurrentHashMap, FutureTask, LinkedBlockingQueue, PriorityBlockingQueue, ThreadPoolExecutor, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log, OnePerExecutor}
import io.mooring.localstore.{FetchAhead, HostStore}
import io.mooring.reports.ExecutorReports
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, OpenStores}

/** An order for one executor: the stores that its tasks will open in the first batch of a run, in the order in which they are needed. */
final case class PrefetchOrder(executor: String, query: String, run: String, stores: Seq[StoreVersion])

/**
 * Fetches the files of stores that this executor's tasks are about to open: several stores at once, and several files of each store. A
 * task that opens a store meanwhile waits for the store's files. If no thread has begun to fetch them, the task fetches them itself.
 *
 * Threads: a short task of `Prefetches` calls `begin`; threads of this object fetch the files. A file that could not be fetched is fetched
 * when the store is opened, as in stock Spark. Without this class, all files are.
 *
 * @param mostStreams    how many stores, and how many files, are fetched at once
 * @param bytesPerSecond the limit of all threads together
 */
final class Prefetch(store: HostStore, mostStreams: Int, bytesPerSecond: Long) {
  private val pace = new Pace(bytesPerSecond)
  private val stores = pool("mooring-prefetch-store", new LinkedBlockingQueue[Runnable])
  private val files = pool("mooring-prefetch-file", new PriorityBlockingQueue[Runnable])

  private val ordered = new ConcurrentHashMap[String, (String, Seq[FetchAhead])]() // query -> its newest run, and the order for that run

  /** Returns at once. Cancels the stores of an order for an earlier run of the query that no thread has begun. */
  def begin(order: PrefetchOrder, access: CheckpointAccess): Unit = {
    val notOpenYet = order.stores.filterNot(version => OpenStores.has(version.directory))
    val fetchable = notOpenYet.flatMap(version => store.filesOf(new Path(version.directory)).map(version -> _))
    val progress = new Progress(order.query, fetchable.size)
    val fetches = for (((wanted, hostFiles), place) <- fetchable.zipWithIndex) yield {
      val copy = new StoreCopy(new Path(wanted.directory), hostFiles, access, pace, NeverOpen, new InTurn(place), isAhead = true)
      hostFiles.expect(new FetchAhead(progress.count(wanted.directory)(copy.fetch(wanted, isHeld = false)), _))
    }
    ordered.values.removeIf(_._2.forall(_.isDone)) // also those of queries that have ended
    val before = ordered.put(order.query, order.run -> fetches)
    for ((run, earlier) <- Option(before) if run != order.run) earlier.foreach(_.cancel(false))
    fetches.foreach(stores.execute)
  }

  /** Ends the threads. Files that are being fetched are not kept. */
  def stop(): Unit = for (pool <- Seq(stores, files); left <- pool.shutdownNow().asScala) left match {
    case task: FutureTask[_] => task.cancel(false) // a Spark task may wait for its result
    case _ =>
  }

  private def pool(name: String, queue: java.util.concurrent.BlockingQueue[Runnable]): ThreadPoolExecutor = {
    val threads = new ThreadPoolExecutor(mostStreams, mostStreams, 10, TimeUnit.SECONDS, queue, Daemon.factory(name))
    threads.allowCoreThreadTimeOut(true)
    threads
  }

  /** Fetches several files of one store at once. Among all stores, the files of the store that is needed first come first. */
  private final class InTurn(place: Int) extends Streams {
    override def atOnce[T](work: Seq[() => T]): Seq[T] = {
      val fetches = work.map(fetch => new InOrder(place, fetch))
      fetches.foreach(files.execute)
      fetches.map(FetchAhead.resultOf(_))
    }
  }

  private final class InOrder[T](val place: Int, work: () => T) extends FutureTask[T](() => work()) with Comparable[InOrder[_]] {
    override def compareTo(other: InOrder[_]): Int = Integer.compare(place, other.place)
  }
}

/** The Prefetch of an executor. There is none where the host's store can not be used, and where fetching ahead is switched off. */
object Prefetch extends OnePerExecutor[Prefetch](_.stop())

/** Counts the stores of one order that are done, and reports the count to the driver after each store. Called by threads of `Prefetch`. */
private final class Progress(query: String, stores: Int) {
  private val began = System.nanoTime()
  private val done, failed = new AtomicInteger
  private val bytes = new AtomicLong

  /** Runs `fetch`, and reports the progress. `fetch` fetches the files of one store, and returns the number of fetched bytes. */
  def count(directory: String)(fetch: => Long): Unit =
    try bytes.addAndGet(fetch)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // if the fault lasts, the opening of the store reports it
        failed.incrementAndGet()
        Log.failed(s"prefetch-${e.getClass.getName}", e)(
          s"the files of $directory could not be fetched ahead ($e): they are fetched when the store is opened")
    } finally report()

  /** Synchronized, so that the reports come in order. */
  private def report(): Unit = synchronized {
    val now = done.incrementAndGet()
    val milliseconds = (System.nanoTime() - began) / 1000000
    ExecutorReports.storesFetched(query, now, stores, bytes.get, milliseconds)
    if (now == stores && bytes.get > 0)
      Log.info(s"${stores - failed.get} of $stores stores of query $query are here: ${bytes.get >> 20} MiB were fetched in $milliseconds ms")
  }
}
