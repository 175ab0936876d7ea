package io.mooring.restore

import java.util.concurrent.ConcurrentHashMap

import io.mooring.common.{FailOpen, Daemon, Location, Names}
import io.mooring.placement.PlacementTable
import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.sql.execution.streaming.state.shims.{OperatorFacts, StreamShim, StreamShims}

/**
 * When a query starts from existing state, tells every executor which stores its tasks will open, so that the files come before the
 * tasks. The orders are sent by a Spark job with one short task for each executor.
 *
 * On the driver. `begin` is called by the stream's thread and for each new plan; a thread of its own runs the job.
 */
final class Prefetches(context: SparkContext, table: PlacementTable) {
  private type Placed = Seq[(Int, (String, String))] // partition; executor, host

  private val begun = new ConcurrentHashMap[String, Placed]() // by run

  /**
   * Sends the orders of a run, and returns at once. The plan says which executor runs which partition; local mode has one executor, and
   * needs no plan. Orders are sent once, and again when the plan has changed.
   */
  def begin(query: StreamShim, operators: Seq[OperatorFacts]): Unit = {
    val version = operators.headOption.fold(0L)(_.batch)
    if (version > 0 && query.setting(StreamShims.ProviderKey).contains(Names.Provider)) {
      val placed = (0 until operators.map(_.partitions).max).flatMap(partition => placeOf(query.id, partition).map(partition -> _))
      if (begun.put(query.runId, placed) != placed)
        Daemon.start(s"mooring-prefetch-${query.id}")(FailOpen.forAWhile("fetching state ahead", (), !query.isActive)(send(query, operators, version, placed)))
    }
  }

  def ended(run: String): Unit = { begun.remove(run); () }

  private def placeOf(query: String, partition: Int): Option[(String, String)] =
    if (context.isLocal) Some(SparkEnv.get.executorId -> "") else table.preferred(query, partition)

  private def send(query: StreamShim, operators: Seq[OperatorFacts], version: Long, placed: Placed): Unit = {
    val stores = new CommittedStores(query, operators, version)
    val wanted = for ((partition, executor) <- placed; store <- stores.of(partition).getOrElse(Nil)) yield executor -> store
    val orders = wanted.groupMap(_._1)(_._2).toSeq.map { case ((executor, host), stores) =>
      PrefetchOrder(executor, query.id, query.runId, stores) -> (if (context.isLocal) Nil else Seq(Location.ofExecutor(host, executor)))
    }
    if (orders.nonEmpty) {
      val access = query.checkpointAccess
      context.setJobDescription(s"mooring: state of ${query.label} is fetched")
      context.runJob(context.makeRDD(orders), (mine: Iterator[PrefetchOrder]) => for {
        order <- mine if order.executor == SparkEnv.get.executorId // Spark may run the task elsewhere when the executor is busy
        prefetch <- Prefetch.ofThisExecutor
      } prefetch.begin(order, access))
    }
  }
}
