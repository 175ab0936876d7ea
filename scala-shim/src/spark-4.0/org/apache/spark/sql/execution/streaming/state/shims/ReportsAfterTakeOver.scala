package org.apache.spark.sql.execution.streaming.state.shims

import scala.annotation.unused

/** What a store reports to Spark's coordinator. In Spark 4.0 stores report nothing. */
private[shims] final class ReportsAfterTakeOver(@unused partition: Int) {

  /** From now on reports go where an instance with these arguments would report. */
  def passOn(@unused arguments: RocksDBArguments): Unit = ()
}
