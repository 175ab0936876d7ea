package io.mooring.restore

import java.util.concurrent.{ConcurrentHashMap, FutureTask, LinkedBlockingQueue, PriorityBlockingQueue, ThreadPoolExecutor, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.mooring.common.{Daemon, Log}
import io.mooring.localstore.{Coming, HostStore}
import io.mooring.reports.ExecutorReports
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, OpenStores}

/** The stores that the tasks of one executor will open in the first batch of a run, in the order in which they are needed. */
final case class PrefetchOrder(executor: String, query: String, run: String, stores: Seq[StoreVersion])

/**
 * Fetches the files of stores that this executor's tasks are about to open: several stores at once, and several files of each. A store
 * that is opened meanwhile waits for its own files; if no thread has begun with them, the task fetches them itself in the same way.
 *
 * `begin` is called by a short task of `Prefetches`; the files are fetched by threads of this object. What fails is fetched when the
 * store is opened, as in stock Spark, and so is everything without this class.
 *
 * @param mostStreams    how many stores, and how many files, are fetched at once
 * @param bytesPerSecond the limit of all threads together
 */
final class Prefetch(store: HostStore, mostStreams: Int, bytesPerSecond: Long) {
  private val pace = new Pace(bytesPerSecond)
  private val stores = pool("mooring-prefetch-store", new LinkedBlockingQueue[Runnable])
  private val files = pool("mooring-prefetch-file", new PriorityBlockingQueue[Runnable])

  private val ordered = new ConcurrentHashMap[String, (String, Seq[Coming])]() // query -> its newest run, and the order for that run

  /** Returns at once. Cancels what was ordered for an earlier run of the query and has not begun. */
  def begin(order: PrefetchOrder, access: CheckpointAccess): Unit = {
    val wanted = order.stores.filterNot(version => OpenStores.has(version.directory))
    val fetchable = wanted.flatMap(version => store.filesOf(new Path(version.directory)).map(version -> _))
    val progress = new Progress(order.query, fetchable.size)
    val coming = for (((wanted, hostFiles), place) <- fetchable.zipWithIndex) yield {
      val copy = new StoreCopy(new Path(wanted.directory), hostFiles, access, pace, NeverOpen, new InTurn(place), isAhead = true)
      hostFiles.expect(new Coming(progress.count(wanted.directory)(copy.bringTo(wanted, isHeld = false)), _))
    }
    val before = ordered.put(order.query, order.run -> coming)
    for ((run, earlier) <- Option(before) if run != order.run) earlier.foreach(_.cancel(false))
    coming.foreach(stores.execute)
  }

  /** Ends the threads. A file that is being fetched is not kept. */
  def stop(): Unit = for (pool <- Seq(stores, files); left <- pool.shutdownNow().asScala) left match {
    case task: FutureTask[_] => task.cancel(false) // a task may wait for it
    case _ =>
  }

  private def pool(name: String, queue: java.util.concurrent.BlockingQueue[Runnable]): ThreadPoolExecutor = {
    val threads = new ThreadPoolExecutor(mostStreams, mostStreams, 10, TimeUnit.SECONDS, queue, Daemon.factory(name))
    threads.allowCoreThreadTimeOut(true)
    threads
  }

  /** Fetches files of one store at once; files of a store that is needed earlier go first. */
  private final class InTurn(place: Int) extends Streams {
    override def atOnce[T](work: Seq[() => T]): Seq[T] = {
      val begun = work.map(fetch => new Placed(place, fetch))
      begun.foreach(files.execute)
      begun.map(Coming.resultOf(_))
    }
  }

  private final class Placed[T](val place: Int, work: () => T) extends FutureTask[T](() => work()) with Comparable[Placed[_]] {
    override def compareTo(other: Placed[_]): Int = Integer.compare(place, other.place)
  }
}

object Prefetch {
  @volatile private var ofThis: Option[Prefetch] = None

  /** None in a driver, where the host's store can not be used, and where fetching ahead is switched off. */
  def ofThisExecutor: Option[Prefetch] = ofThis

  private[mooring] def use(prefetch: Option[Prefetch]): Unit = {
    ofThis.foreach(_.stop())
    ofThis = prefetch
  }
}

/** Reports to the driver, store by store, how much of an order is done. */
private final class Progress(query: String, of: Int) {
  private val began = System.nanoTime()
  private val done, failed = new AtomicInteger
  private val bytes = new AtomicLong

  /** Runs `bring`, which fetches the files of one store and returns the number of fetched bytes, and reports it. */
  def count(directory: String)(bring: => Long): Unit =
    try bytes.addAndGet(bring)
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
    ExecutorReports.storesFetched(query, now, of, bytes.get, milliseconds)
    if (now == of && bytes.get > 0)
      Log.info(s"${of - failed.get} of $of stores of query $query are here: ${bytes.get >> 20} MiB were fetched in $milliseconds ms")
  }
}
