package io.mooring.restore

import org.apache.spark.sql.execution.streaming.state.shims.{KeyCounts, OperatorFacts, StreamShim}

/**
 * The versions of all state stores of a query after a committed batch, from the checkpoint's commit log. Made and used by one thread
 * of the driver, which may wait for the checkpoint.
 *
 * @param version the version of the state after the batch: the number of the batch plus one
 */
private[mooring] final class CommittedStores(query: StreamShim, operators: Seq[OperatorFacts], val version: Long) {
  private val ids = if (query.hasUniqueIds) query.stateIds(version - 1) else Map.empty[Long, Array[Array[String]]]

  /** Whether the commit log names the versions. True in checkpoint format v1, where no version has a unique id. */
  def areKnown: Boolean = version > 0 && (ids.nonEmpty || !query.hasUniqueIds)

  /**
   * The stores of one partition, of all operators; None when the versions are not known. `counts` maps a unique id to the numbers of
   * keys, where these are known.
   */
  def of(partition: Int, counts: String => Option[KeyCounts] = _ => None): Option[Seq[StoreVersion]] = Option.when(areKnown) {
    for {
      operator <- operators if partition < operator.partitions
      (store, index) <- operator.stores.zipWithIndex
      id <- idOf(operator, partition, index)
    } yield StoreVersion(operator.directory(partition, store), version, id, id.flatMap(counts))
  }

  /**
   * Some with the unique id; Some(None) in checkpoint format v1. None where the operator has no state in the partition: a global limit
   * has state in one partition only.
   */
  private def idOf(operator: OperatorFacts, partition: Int, index: Int): Option[Option[String]] =
    if (query.hasUniqueIds) ids.get(operator.id).flatMap(_.lift(partition)).flatMap(_.lift(index)).map(Some(_))
    else Some(None)
}
