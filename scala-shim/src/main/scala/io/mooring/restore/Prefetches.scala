package io.mooring.restore

import java.util.concurrent.ConcurrentHashMap

import io.mooring.common.{FailOpen, Daemon, Location, Names}
import io.mooring.placement.PlacementTable
import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.sql.execution.streaming.state.shims.{CheckpointAccess, OperatorFacts, StreamShim, StreamShims}

/**
 * When a query starts from existing state, sends each executor the list of the stores that its tasks will open. So the files come before
 * the tasks. The lists are sent by a Spark job with one short task for each executor.
 *
 * On the driver. `begin` is called by the stream's thread, and by the thread of `QueryWatch.starts`; a new daemon thread runs the job.
 * Depends on `StreamShim`. Without it, each task fetches the state that it opens.
 */
final class Prefetches(context: SparkContext, table: PlacementTable) {
  private type Places = Seq[(Int, (String, String))] // partitions, each with its executor (id, host)

  private val sent = new ConcurrentHashMap[String, Places]() // run id -> the places for which orders were sent last
  // By run id. Executors read its broadcast for as long as they fetch, and Spark removes a broadcast that the driver does not refer to.
  private val accesses = new ConcurrentHashMap[String, CheckpointAccess]()

  /**
   * Sends the orders of a run, and returns at once. The plan names the executor of each partition; local mode has one executor, and needs
   * no plan. A second call sends orders only when the places have changed.
   */
  def begin(query: StreamShim, operators: Seq[OperatorFacts]): Unit = {
    val version = operators.headOption.fold(0L)(_.batch)
    if (version > 0 && query.setting(StreamShims.ProviderKey).contains(Names.Provider)) {
      val places = (0 until operators.map(_.partitions).max).flatMap(partition => executorOf(query.id, partition).map(partition -> _))
      if (sent.put(query.runId, places) != places)
        Daemon.start(s"mooring-prefetch-${query.id}")(FailOpen.forAWhile("fetching state ahead", (), !query.isActive)(send(query, operators, version, places)))
    }
  }

  def ended(run: String): Unit = {
    sent.remove(run)
    accesses.remove(run)
    ()
  }

  private def executorOf(query: String, partition: Int): Option[(String, String)] =
    if (context.isLocal) Some(SparkEnv.get.executorId -> "") else table.preferred(query, partition)

  private def send(query: StreamShim, operators: Seq[OperatorFacts], version: Long, places: Places): Unit = {
    val stores = new CommittedStores(query, operators, version)
    val wanted = for ((partition, executor) <- places; store <- stores.of(partition).getOrElse(Nil)) yield executor -> store
    val orders = wanted.groupMap(_._1)(_._2).toSeq.map { case ((executor, host), stores) =>
      PrefetchOrder(executor, query.id, query.runId, stores) -> (if (context.isLocal) Nil else Seq(Location.ofExecutor(host, executor)))
    }
    if (orders.nonEmpty) {
      // The entry of a run that is over would stay. All orders of a run have the same access, which the entry keeps.
      val kept = accesses.computeIfAbsent(query.runId, _ => if (query.isRegistered) query.checkpointAccess else null)
      val access = Option(kept).getOrElse(query.checkpointAccess)
      context.setJobDescription(s"mooring: state of ${query.label} is fetched")
      context.runJob(context.makeRDD(orders), (ofTask: Iterator[PrefetchOrder]) => for {
        order <- ofTask if order.executor == SparkEnv.get.executorId // Spark may run the task elsewhere when the executor is busy
        prefetch <- Prefetch.ofThisExecutor
      } prefetch.begin(order, access))
    }
  }
}
