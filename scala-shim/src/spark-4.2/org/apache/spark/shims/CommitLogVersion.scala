package org.apache.spark.shims

import java.lang.reflect.Field

import org.apache.spark.sql.execution.streaming.checkpointing.CommitLog

/** The version in which the commit log of a query writes its next entries: in Spark 4.2 a field of the log. */
private[shims] trait CommitLogVersion extends PrivateMembers {

  /** `CommitLog.defaultVersion`. */
  def commitLogVersion: Option[Field] = Some(versionOfLog.member)
  private val versionOfLog = field("CommitLog.defaultVersion", Capability.FormatOfState)(classOf[CommitLog])
}
