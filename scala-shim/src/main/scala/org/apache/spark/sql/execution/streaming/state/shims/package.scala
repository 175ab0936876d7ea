/** Host affinity, hot standby and drain: code that reads or extends classes of Structured Streaming that only packages of Spark can see. */
package org.apache.spark.sql.execution.streaming.state.shims
