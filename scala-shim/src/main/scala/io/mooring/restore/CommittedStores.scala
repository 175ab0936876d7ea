package io.mooring.restore

import org.apache.spark.sql.execution.streaming.state.shims.{KeyCounts, OperatorFacts, StreamShim}

/**
 * The stores of a query after a committed batch, by the checkpoint's commit log. Made and used by one thread, which may wait for the
 * checkpoint.
 *
 * @param version the version of the state that the batch has left
 */
private[mooring] final class CommittedStores(query: StreamShim, operators: Seq[OperatorFacts], val version: Long) {
  private val ids = if (query.hasUniqueIds) query.stateIds(version - 1) else Map.empty[Long, Array[Array[String]]]

  /** Whether the versions are known from the commit log. */
  def areKnown: Boolean = version > 0 && (ids.nonEmpty || !query.hasUniqueIds)

  /** The stores of one partition, of all operators; None when the versions are not known. */
  def of(partition: Int, counts: String => Option[KeyCounts] = _ => None): Option[Seq[StoreVersion]] = Option.when(areKnown) {
    for {
      operator <- operators if partition < operator.partitions
      (store, index) <- operator.stores.zipWithIndex
      id <- idOf(operator, partition, index)
    } yield StoreVersion(operator.directory(partition, store), version, id, id.flatMap(counts))
  }

  /** The unique id, None in checkpoint format v1. No answer where the operator has no state in the partition, as a global limit. */
  private def idOf(operator: OperatorFacts, partition: Int, index: Int): Option[Option[String]] =
    if (query.hasUniqueIds) ids.get(operator.id).flatMap(_.lift(partition)).flatMap(_.lift(index)).map(Some(_))
    else Some(None)
}
