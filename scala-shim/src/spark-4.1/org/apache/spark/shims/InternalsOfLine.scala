package org.apache.spark.shims

/** Private members that only Spark 4.1 has: none. */
private[shims] trait InternalsOfLine extends PrivateMembers
