package io.mooring.standby

import io.mooring.common.{Json, Location}
import org.apache.spark.sql.connector.read.InputPartition
import org.apache.spark.sql.connector.read.streaming.Offset

/** What a round is for: the committed state version; the number tells rounds of one version apart. */
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

/** The copies that one executor is to bring up to date. */
final case class CopyOrders(executor: String, host: String, orders: Seq[CopyOrder]) extends InputPartition {
  override def preferredLocations(): Array[String] = Array(Location.ofExecutor(host, executor))
}
