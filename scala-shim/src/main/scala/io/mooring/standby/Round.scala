package io.mooring.standby

import io.mooring.common.{Json, Location}
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.connector.read.streaming.Offset

/**
 * One round of the replica query: copies are to be brought to the committed `version`. Several rounds may have the same version, and
 * differ in their number. It is the offset of the replica query's source.
 */
final case class Round(version: Long, number: Long) extends Offset {
  override def json(): String = Json.write(Map("version" -> version, "number" -> number))
}

object Round {
  val Nothing: Round = Round(-1, -1)

  def parse(json: String): Round = {
    val node = Json.read(json)
    Round(node.get("version").asLong(), node.get("number").asLong())
  }
}

/** The orders of one round for one executor. The replica query has one task for each. */
final case class CopyOrders(executor: String, host: String, orders: Seq[CopyOrder]) extends InputPartition {
  override def preferredLocations(): Array[String] = Array(Location.ofExecutor(host, executor))
}
