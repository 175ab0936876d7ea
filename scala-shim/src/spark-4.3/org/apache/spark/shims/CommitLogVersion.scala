package org.apache.spark.shims

import java.lang.reflect.Field

/** The version in which the commit log of a query writes its next entries: Spark 4.3 reads it from the settings at each commit. */
private[shims] trait CommitLogVersion extends PrivateMembers {

  /** No field has it. */
  def commitLogVersion: Option[Field] = None
}
