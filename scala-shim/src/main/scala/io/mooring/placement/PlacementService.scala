package io.mooring.placement

import org.apache.spark.sql.execution.streaming.state.shims.OperatorFacts

/**
 * What the plan nodes and RDDs of this package need of the driver plugin. `Driver` implements it, so that this package does not
 * import `io.mooring.driver`. Called by the stream's thread, and by the thread that sends tasks (`computes`, `table`).
 */
trait PlacementService {

  /** The executors on which each task is wanted. */
  def table: PlacementTable

  /** A batch of the query was planned with these stateful operators. May wait for the plan. */
  def planned(query: String, operators: Seq[OperatorFacts]): Unit

  /** Whether an earlier run of the query has begun this batch and not committed it. */
  def isRepeated(operator: OperatorFacts): Boolean

  /** The tasks of a batch are about to be placed. */
  def batchIsPlaced(): Unit

  /** The first task with state of this batch is about to be sent. */
  def computes(query: String, batch: Long): Unit

  /** The state of the run's drain in this batch; the numbers are those of `Drains.stateOf`. */
  def drainStateOf(run: String, batch: Long): Int
}

object PlacementService {
  @volatile private var running: Option[PlacementService] = None

  /** The service of this JVM's application; None in executors, and where Mooring is switched off. */
  def current: Option[PlacementService] = running

  private[mooring] def use(service: Option[PlacementService]): Unit = running = service
}
