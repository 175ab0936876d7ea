/** Host affinity and hot standby: what reads or changes the waiting tasks of Spark's scheduler, which only its own package sees. */
package org.apache.spark.scheduler.shims
