/** Host affinity, hot standby and drain: what reads or extends classes of Structured Streaming that only Spark's own packages see. */
package org.apache.spark.sql.execution.streaming.state.shims
