package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RecordType

/** Records of a changelog that delete a range of keys. Spark 4.0 and 4.1 know none. */
private[shims] object RangeRecords {
  def isRange(kind: RecordType.Value): Boolean = false
}
