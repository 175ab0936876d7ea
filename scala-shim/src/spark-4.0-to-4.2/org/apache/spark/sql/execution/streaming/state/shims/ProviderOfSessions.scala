package org.apache.spark.sql.execution.streaming.state.shims

/** The state store provider with which every session of an application begins, in Spark 4.0 to 4.2. */
object ProviderOfSessions {

  /** Mooring's own: also a query that could not be prepared at its start has it. */
  def name(ours: String): String = ours
}
