/** Host affinity and hot standby: code that reads or changes the waiting tasks of Spark's scheduler, which only Spark's own packages can access. */
package org.apache.spark.scheduler.shims
