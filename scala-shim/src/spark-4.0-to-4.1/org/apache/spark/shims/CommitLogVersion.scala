package org.apache.spark.shims

import java.lang.reflect.Field

import org.apache.spark.sql.execution.streaming.checkpointing.CommitLog

/** The version in which the commit log of a query reads and writes its entries: in Spark 4.0 and 4.1 a field of the log. */
private[shims] trait CommitLogVersion extends PrivateMembers {

  /** `CommitLog.VERSION`. */
  def commitLogVersion: Option[Field] = Some(versionOfLog.member)
  private val versionOfLog = field("CommitLog.VERSION", Capability.FormatOfState)(classOf[CommitLog])
}
