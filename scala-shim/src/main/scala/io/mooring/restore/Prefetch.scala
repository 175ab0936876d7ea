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

/** The stores that the tasks of one executor will open first in a run, in the order in which they will be needed. */
final case class PrefetchOrder(executor: String, query: String, run: String, stores: Seq[StoreVersion])

/**
 * Brings the stores that this executor's tasks are about to open to its host: several at once, and several files of
 * each. A store that is opened before waits for its own files, or, when nobody has begun with them, fetches them itself
 * in the same way. Whatever fails here is fetched as in stock Spark when the store is opened.
 */
final class Prefetch(store: HostStore, mostStreams: Int, bytesPerSecond: Long) {
  private val pace = new Pace(bytesPerSecond)
  private val stores = pool("mooring-prefetch-store", new LinkedBlockingQueue[Runnable])
  private val files = pool("mooring-prefetch-file", new PriorityBlockingQueue[Runnable])

  private val ordered = new ConcurrentHashMap[String, (String, Seq[Coming])]() // query -> its newest run, and what was ordered for it

  /** Returns at once. What was ordered for an earlier run, and not begun, is not needed any more. */
  def begin(order: PrefetchOrder, access: CheckpointAccess): Unit = {
    val wanted = order.stores.filterNot(one => OpenStores.has(one.directory))
    val shelves = wanted.flatMap(one => store.shelf(new Path(one.directory)).map(one -> _))
    val progress = new Progress(order.query, shelves.size)
    val coming = for (((wanted, shelf), place) <- shelves.zipWithIndex) yield {
      val copy = new StoreCopy(new Path(wanted.directory), shelf, access, pace, NeverOpen, new InTurn(place), isAhead = true)
      shelf.comes(new Coming(progress.count(wanted.directory)(copy.bringTo(wanted, isHeld = false)), _))
    }
    val before = ordered.put(order.query, order.run -> coming)
    for ((run, earlier) <- Option(before) if run != order.run) earlier.foreach(_.cancel(false))
    coming.foreach(stores.execute)
  }

  /** Ends the threads; a file that is being fetched is thrown away. */
  def stop(): Unit = for (pool <- Seq(stores, files); left <- pool.shutdownNow().asScala) left match {
    case task: FutureTask[_] => task.cancel(false) // somebody may wait for it
    case _ =>
  }

  private def pool(name: String, queue: java.util.concurrent.BlockingQueue[Runnable]): ThreadPoolExecutor = {
    val threads = new ThreadPoolExecutor(mostStreams, mostStreams, 10, TimeUnit.SECONDS, queue, Daemon.factory(name))
    threads.allowCoreThreadTimeOut(true)
    threads
  }

  /** Files of the store that is needed first go before those of others. */
  private final class InTurn(place: Int) extends Streams {
    override def atOnce[T](work: Seq[() => T]): Seq[T] = {
      val begun = work.map(one => new Placed(place, one))
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

  /** None in a driver, where the host store can not be used, and where it is switched off. */
  def ofThisExecutor: Option[Prefetch] = ofThis

  private[mooring] def use(prefetch: Option[Prefetch]): Unit = {
    ofThis.foreach(_.stop())
    ofThis = prefetch
  }
}

/** How much of an order is done, told to the driver store by store. */
private final class Progress(query: String, of: Int) {
  private val began = System.nanoTime()
  private val done, failed = new AtomicInteger
  private val bytes = new AtomicLong

  /** Does what brings one store's files, of which it answers the bytes that were fetched. */
  def count(directory: String)(bring: => Long): Unit =
    try bytes.addAndGet(bring)
    catch {
      case e: Throwable if NonFatal(e) || e.isInstanceOf[LinkageError] => // the store's opening tells what is wrong, if it still is
        failed.incrementAndGet()
        Log.failed(s"prefetch-${e.getClass.getName}", e)(
          s"the files of $directory could not be fetched ahead ($e): they are fetched when the store is opened")
    } finally told()

  private def told(): Unit = synchronized { // in order
    val now = done.incrementAndGet()
    val milliseconds = (System.nanoTime() - began) / 1000000
    ExecutorReports.storesFetched(query, now, of, bytes.get, milliseconds)
    if (now == of && bytes.get > 0)
      Log.info(s"${of - failed.get} of $of stores of query $query are here: ${bytes.get >> 20} MiB were fetched in $milliseconds ms")
  }
}
