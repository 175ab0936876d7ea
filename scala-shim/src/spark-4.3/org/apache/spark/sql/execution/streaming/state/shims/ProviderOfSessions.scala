package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

/** The state store provider with which every session of an application begins, in Spark 4.3. */
object ProviderOfSessions {

  /** Stock RocksDB: Spark 4.3 refuses to start a query in real-time mode in a session with another one. Each query gets ours at its start. */
  def name(@unused ours: String): String = StreamShims.StockRocksDB
}
