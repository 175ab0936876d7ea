package org.apache.spark.sql.execution.streaming.state.shims

import org.apache.spark.sql.execution.streaming.state.RecordType

/** Records of a changelog that delete a range of keys. Spark 4.2 and 4.3 write them. */
private[shims] object RangeRecords {
  def isRange(kind: RecordType.Value): Boolean = kind == RecordType.DELETE_RANGE_RECORD
}
