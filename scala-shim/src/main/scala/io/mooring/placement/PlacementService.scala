package io.mooring.placement

import org.apache.spark.sql.execution.streaming.state.shims.OperatorFacts

/** What the driver part does for the nodes and RDDs of this package. */
trait PlacementService {

  /** Where each task is wanted. */
  def table: PlacementTable

  /** A batch of the query was planned with these stateful operators; in the stream's thread. */
  def planned(query: String, operators: Seq[OperatorFacts]): Unit

  /** Whether an earlier run of the query has begun this batch and not committed it. */
  def isRepeated(operator: OperatorFacts): Boolean

  /** A batch is about to be run. */
  def batchIsPlaced(): Unit

  /** The first task with state of this batch is about to be sent. */
  def computes(query: String, batch: Long): Unit

  /** How far the drain of a run is in a batch, as `Drains.stateOf` says. */
  def drainStateOf(run: String, batch: Long): Int
}

object PlacementService {
  @volatile private var running: Option[PlacementService] = None

  /** That of this JVM's application; None in executors, and where Mooring is switched off. */
  def current: Option[PlacementService] = running

  private[mooring] def use(service: Option[PlacementService]): Unit = running = service
}
