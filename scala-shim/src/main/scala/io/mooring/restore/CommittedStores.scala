package io.mooring.restore

import org.apache.spark.sql.execution.streaming.state.shims.{KeyCounts, OperatorFacts, StreamShim}

/** The stores of a query as a committed batch has left them, by the checkpoint's commit log. Not for several threads. */
private[mooring] final class CommittedStores(query: StreamShim, operators: Seq[OperatorFacts], val version: Long) {
  private val ids = if (query.hasUniqueIds) query.stateIds(version - 1) else Map.empty[Long, Array[Array[String]]]

  /** Whether the commit log tells the versions. */
  def areKnown: Boolean = version > 0 && (ids.nonEmpty || !query.hasUniqueIds)

  /** Those of one partition, in all operators; None where the commit log does not tell. */
  def of(partition: Int, counts: String => Option[KeyCounts] = _ => None): Option[Seq[StoreVersion]] = Option.when(areKnown) {
    for {
      operator <- operators if partition < operator.partitions
      (store, index) <- operator.stores.zipWithIndex
      id <- idOf(operator, partition, index)
    } yield StoreVersion(operator.directory(partition, store), version, id, id.flatMap(counts))
  }

  /** An operator may have state in fewer partitions than it names, as a global limit has. */
  private def idOf(operator: OperatorFacts, partition: Int, index: Int): Option[Option[String]] =
    if (query.hasUniqueIds) ids.get(operator.id).flatMap(_.lift(partition)).flatMap(_.lift(index)).map(Some(_))
    else Some(None)
}
